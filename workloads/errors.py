"""What can be wrong with a workload or its targets: each error is a builtin one too."""


class WorkloadError(ValueError):
    """A workload cannot be made or used; the message says what, where and what to do."""


class TargetsError(ValueError):
    """Variance targets are missing, of the wrong length, or not positive and finite."""
