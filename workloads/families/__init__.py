"""Workload families, those of one kind in a module; each module defines ``FAMILIES``."""
