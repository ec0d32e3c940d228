"""Descriptions of the values that laws are tried on, and how they are built."""
