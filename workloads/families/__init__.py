"""Workload families, in modules that are searched for instances of `Family`."""
