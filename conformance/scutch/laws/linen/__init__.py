"""Laws about Linen modules."""
