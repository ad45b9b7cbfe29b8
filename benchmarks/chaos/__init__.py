"""Runs a sweep during which many random faults occur, and checks its results."""
