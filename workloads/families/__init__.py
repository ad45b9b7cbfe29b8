"""One module for each workload family; each defines ``FAMILY``."""
