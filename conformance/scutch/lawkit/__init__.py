"""What laws share: the marks that say what a law judges, equality, and where an array lies."""
