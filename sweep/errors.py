"""The errors of a sweep: one sentence each, and also subclasses of builtin errors."""


class SweepError(Exception):
    """Base of the errors below; the message says what is wrong, where, and what to do."""


class ExperimentError(SweepError, ValueError):
    """An experiment, or a ``--set`` over it, is not valid."""


class StoreError(SweepError, OSError):
    """A store cannot be read or written, or belongs to another experiment."""


class ClusterError(SweepError, RuntimeError):
    """A Dask cluster cannot be started or reached, or its description is not valid."""


class NoWorkersError(ClusterError):
    """A cluster has had no workers for longer than the run's patience."""
