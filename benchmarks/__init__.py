"""Benchmarks of the reference, of Flax where it is installed, and of plain JAX as the floor.

asv runs them, and so do the gate, the nightly and the trials, by `benchmarks.configurations`. Every
module here can be imported beside an old version of the reference. A benchmark whose feature the
old version lacks is skipped when it is set up.
"""
