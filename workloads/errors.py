"""The errors raised for workloads and for targets; both are subclasses of ValueError."""


class WorkloadError(ValueError):
    """Raised if a workload cannot be made or used; the message says why, where and what to do."""


class TargetsError(ValueError):
    """Raised if variance targets are missing, cannot be made, or are not positive and finite."""
