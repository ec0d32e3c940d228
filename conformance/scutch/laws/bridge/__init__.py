"""Laws about variables, layers and trees that cross between Linen and NNX."""
