"""Errors in workloads and in targets, both of them subclasses of ValueError."""


class WorkloadError(ValueError):
    """A workload cannot be made or used; the message says why, where and what to do."""


class TargetsError(ValueError):
    """Variance targets are missing, of the wrong length, or not positive and finite."""
