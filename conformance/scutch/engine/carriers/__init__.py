"""What a lifted function works on: one file for each kind of things."""
