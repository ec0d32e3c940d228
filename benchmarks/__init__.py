"""Benchmarks of the reference, of Flax where it is installed, and of plain JAX as the floor."""
