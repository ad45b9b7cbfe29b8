"""Tasks that end without an outcome: whether a retry may help, and how they are recorded."""

import time

from distributed import KilledWorker

from sweep.plan.items import Bound, Solve
from sweep.plan.tasks import Task
from sweep.store.ledger import DEADLY
from sweep.store.records import BoundRecord, CellRecord, Status
from sweep.worker.perform import TaskOutcome

DROPPED = "the scheduler dropped it each time; run again to continue"
NOT_FETCHED = "its worker returned a result that cannot be read here; run again to continue"
UNEXPECTED = "the cluster returned results of another task; run again to continue"
WORKER_DIED = "its worker died each time"


def retriable(end: BaseException | str) -> bool:
    """Whether a retry may help: the failure is not one of the task's own code."""
    return isinstance(end, str | KilledWorker | SystemExit | KeyboardInterrupt)


def deaths(end: object) -> int:
    """How many workers died of a task, if that is how it ended."""
    return end.allowed_failures + 1 if isinstance(end, KilledWorker) else 0


def reason(end: BaseException | str) -> str:
    """Why a task ended like this, in words."""
    if isinstance(end, str):
        return end
    if isinstance(end, KilledWorker):
        return WORKER_DIED
    return f"the cluster could not run it: {type(end).__name__}: {_first_line(end)}".rstrip(": ")


def refused(said: str) -> str:
    """A sentence on a task that workers refused, the last one because of what it said."""
    return f"workers refused it each time, the last one because {said}; run again to continue"


def died() -> str:
    """A sentence on a task whose workers died."""
    return (
        f"{WORKER_DIED}: killed, crashed or out of memory; 'sweep plan' shows the memory that it "
        "needs"
    )


def _first_line(error: BaseException) -> str:
    try:
        return next(iter(str(error).splitlines()), "")
    except Exception:
        return ""


def outcome(task: Task, error: str, deaths: int = 0) -> TaskOutcome:
    """The records of a lost task; none for its bounds, unless they are deadly."""
    cells = (
        CellRecord(
            cell=cell.id,
            solve=item.key,
            problem=item.problem,
            status=Status.LOST,
            attempt=cell.attempt,
            started=time.time() if deaths else 0.0,
            error=error,
            deaths=deaths,
        )
        for item in task.items
        if isinstance(item, Solve)
        for cell in item.cells
    )
    deadly = (
        BoundRecord(item.problem, error=error, code=item.code)
        for item in task.items
        if isinstance(item, Bound) and deaths >= DEADLY
    )
    return TaskOutcome(f"{task.name}-lost", (*cells, *deadly), written=False)
