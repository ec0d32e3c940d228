"""The reference implementation: it defines what conforming looks like."""
