"""The statement that most laws make, over tables; now only how two traces are compared."""
