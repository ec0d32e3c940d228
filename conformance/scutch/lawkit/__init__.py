"""Functions that laws share, such as marks, equality, refusals, tolerances and shardings."""
