"""Laws about NNX objects."""
