"""Workload families, grouped into modules; each module lists its families in ``FAMILIES``."""
