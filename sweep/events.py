"""The events of a run, which it sends to listeners: the progress bar, the store's log, tests."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args


@dataclass(frozen=True)
class RunStarted:
    """The work is planned; nothing is solved yet.

    Attributes
    ----------
    todo : int
        Number of cells without a final result.
    reused : int
        Number of these cells that take their result from an earlier solve.
    deadly : int
        Number of lost cells that are not solved again, because too many workers died while they
        solved them.
    hidden : int
        Number of recorded cells that the experiment no longer has.
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
    """A sentence on something that the user should know, but that does not end the run.

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
        Address of the scheduler's dashboard; empty if it has none.
    """

    workers: int
    threads: int
    dashboard: str = ""


@dataclass(frozen=True)
class SchedulerLost:
    """The scheduler at ``address`` does not answer; the run ends after ``patience`` seconds.

    If the scheduler answers before that, the run sends it again every task that was in flight.
    """

    address: str
    patience: float


@dataclass(frozen=True)
class WorkersMissing:
    """The cluster has had no workers for ``seconds``; the run ends after ``patience`` seconds.

    ``message`` says why there are none.
    """

    seconds: float
    patience: float
    message: str


@dataclass(frozen=True)
class CellsDone:
    """A task has ended.

    Attributes
    ----------
    statuses : Mapping[str, int]
        Number of the task's cells by status.
    task : str
        The task's name, which is also the name of its journal segment.
    """

    statuses: Mapping[str, int]
    task: str = ""


@dataclass(frozen=True)
class Progressed:
    """The progress of a run, which the run reports about once a second.

    It is also written to the store, for other processes.

    Attributes
    ----------
    began : float
        When the run began, in seconds since 1970, UTC.
    statuses : Mapping[str, int]
        Number of finished cells, by status.
    rate : float
        Number of cells that were done per second recently.
    share : float
        Share of the work that is done, from 0 to 1. Work is measured in core seconds: those that
        were spent, and those that are expected to remain.
    left_s : tuple of float, optional
        Expected seconds left, and a lower and an upper bound that hold in four of five runs; None
        without workers, and before a task has ended.
    core_s, core_left_s : float
        Core seconds that the run's tasks have taken, and those that are expected to remain.
    failures : Mapping[str, int]
        Number of cells that failed, timed out or were lost, by reason; it has only the most
        frequent reasons.
    slowest : tuple of (str, float)
        The labels of the cells that took longest, and their seconds.
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
        Number of cells that were solved, or whose problem was certified, by code other than this
        process's.
    """

    statuses: Mapping[str, int]
    seconds: float
    interrupted: bool
    of_other_code: int = 0


Event = (
    RunStarted
    | Warned
    | ClusterReady
    | SchedulerLost
    | WorkersMissing
    | CellsDone
    | Progressed
    | TaskRetried
    | DatasetWritten
    | RunEnded
)
Listener = Callable[[Event], None]


_KINDS: Mapping[str, Any] = {kind.__name__: kind for kind in get_args(Event)}


def from_json(content: Mapping[str, Any]) -> Event | None:
    """The event in a line of a store's log; None if this version cannot read the line."""
    kind = _KINDS.get(content.get("event", ""))
    if kind is None:
        return None
    try:
        event: Event = _adapter(kind).validate_python(content)
    except ValueError:
        return None
    return event


@cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def ignore(event: Event) -> None:
    """The listener that does nothing."""
