"""Laws for Flax-style sharding metadata, and the judge that tries implementations by them."""
