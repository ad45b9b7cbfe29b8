"""Events that a run sends to its listeners, such as the progress bar and the store's log."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class RunStarted:
    """A run has planned its work; nothing is solved yet.

    Attributes
    ----------
    todo : int
        Number of cells that the run solves or for which it copies an earlier result.
    reused : int
        Number of cells whose result is copied from an earlier solve.
    deadly : int
        Number of lost cells that the run does not solve again, because too many workers died while
        solving them.
    hidden : int
        Number of recorded cells that are no longer in the experiment.
    """

    experiment: str
    store: str
    cells: int
    todo: int
    reused: int
    solves: int
    bounds: int
    deadly: int = 0
    hidden: int = 0


@dataclass(frozen=True)
class Warned:
    """A warning: there is a problem that the user should know about, but the run continues.

    Examples: a damaged journal segment was set aside, the dataset cannot be written, someone else
    can run code on the cluster, a worker was closed because its code differs.
    """

    message: str


@dataclass(frozen=True)
class ClusterReady:
    """The cluster has workers, for the first time or again.

    Attributes
    ----------
    dashboard : str
        Address of the scheduler's dashboard; empty if there is none, or if the sweep did not start
        the cluster.
    """

    workers: int
    threads: int
    dashboard: str = ""


@dataclass(frozen=True)
class WorkersMissing:
    """The run has had no workers for ``seconds``; it ends after ``patience`` seconds without any.

    ``message`` says why: no worker has joined, or the scheduler is lost. If the scheduler comes
    back in time, the run resubmits every task that was in flight.
    """

    seconds: float
    patience: float
    message: str


@dataclass(frozen=True)
class WorkerLeft:
    """A worker has ended or was killed, and ``workers`` are left.

    Attributes
    ----------
    worker : str
        The worker's address.
    """

    worker: str
    workers: int


@dataclass(frozen=True)
class CellsDone:
    """A task has ended.

    Attributes
    ----------
    statuses : Mapping[str, int]
        Number of the task's cells with each status.
    task : str
        The task's name, with which the names of its journal segments begin.
    """

    statuses: Mapping[str, int]
    task: str = ""


@dataclass(frozen=True)
class Progressed:
    """The progress of a run, which is reported about once a second.

    The run also writes it to the store, where other processes can read it.

    Attributes
    ----------
    began : float
        When the run began, in seconds since 1970, UTC.
    statuses : Mapping[str, int]
        Number of finished cells with each status.
    rate : float
        Recent rate of finished cells, in cells per second.
    share : float
        Fraction of the work that is done, from 0 to 1: the core seconds spent so far, divided by
        the expected total of core seconds.
    left_s : tuple of float, optional
        Expected number of seconds left, and the two ends of its 80 % interval; None while there are
        no workers or no task has ended.
    core_s, core_left_s : float
        Core seconds that the run's tasks have taken, and core seconds that they are still expected
        to take.
    failures : Mapping[str, int]
        Number of cells that failed, timed out or were lost, by reason; only the most frequent
        reasons are included.
    slowest : tuple of (str, float)
        Labels and solve times in seconds of the cells that took longest.
    """

    began: float
    seconds: float
    workers: int
    threads: int
    running: int
    cells: int
    statuses: Mapping[str, int]
    rate: float
    share: float
    left_s: tuple[float, float, float] | None
    core_s: float
    core_left_s: float
    failures: Mapping[str, int]
    slowest: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class TaskRetried:
    """A task that serves ``cells`` cells was lost with its worker and is sent again."""

    cells: int


@dataclass(frozen=True)
class DatasetWritten:
    """The dataset at ``path`` has been updated, which took ``seconds``."""

    path: str
    seconds: float


@dataclass(frozen=True)
class RunEnded:
    """The run is over.

    Attributes
    ----------
    of_other_code : int
        Number of cells with stale results: the cell was solved, or its problem certified, by code
        that differs from this process's code.
    """

    statuses: Mapping[str, int]
    seconds: float
    interrupted: bool
    of_other_code: int = 0


Event = (
    RunStarted
    | Warned
    | ClusterReady
    | WorkersMissing
    | WorkerLeft
    | CellsDone
    | Progressed
    | TaskRetried
    | DatasetWritten
    | RunEnded
)
Listener = Callable[[Event], None]
