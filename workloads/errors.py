"""Errors of workloads and targets, which are also subclasses of builtin errors."""


class WorkloadError(ValueError):
    """A workload cannot be made or used; the message says why, where and what to do."""


def reading_trouble(error: Exception) -> str:
    """The reason why numpy cannot read a file, without numpy's advice to trust pickles."""
    return "it is not a numpy file" if "pickle" in str(error) else str(error)


class TargetsError(ValueError):
    """Variance targets are missing, of the wrong length, or not positive and finite."""
