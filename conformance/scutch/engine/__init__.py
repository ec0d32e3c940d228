"""One statement over three tables: a lifted call does what JAX does to the pure function.

- `carriers` says what a function works on: arrays, objects, Linen modules. A carrier is described,
  built for an implementation, taken apart by the judge's own code, and written back.
- `lifts` has one file for each transformation, with all that it is for every carrier: the options
  that are drawn, JAX's own transformation of a pure function of leaves, and the call of the
  implementation.
- `relations` makes a call by both routes, and compares. `traces` compares two routes without
  compiling them where it can; `agreement` compares their outcomes.
"""
