"""Laws about exported modules."""
