"""Workload families, grouped into modules, each of which defines ``FAMILIES``."""
