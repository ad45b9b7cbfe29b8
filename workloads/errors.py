"""What can be wrong with a workload or its targets: each error is a builtin one too."""


class WorkloadError(ValueError):
    """A workload cannot be made or used; the message says what, where and what to do."""


def reading_trouble(error: Exception) -> str:
    """Why numpy cannot read a file, in one clause, without its advice to trust pickles."""
    return "it is no file of numpy" if "pickle" in str(error) else str(error)


class TargetsError(ValueError):
    """Variance targets are missing, of the wrong length, or not positive and finite."""
