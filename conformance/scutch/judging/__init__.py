"""Trying laws on an implementation: the settings of a run, the driver of a law, the verdicts."""
