"""The places in a user's code that another release of a library changes."""
