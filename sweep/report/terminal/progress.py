"""A progress bar for the events of a run."""

import time
from collections import Counter
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text

from sweep.events import (
    CellsAwaited,
    CellsDone,
    ClusterExposed,
    ClusterReady,
    DatasetNotWritten,
    Event,
    RunEnded,
    RunStarted,
    SchedulerLost,
    SegmentSetAside,
    TaskRetried,
    WorkersMissing,
)

_PLAIN_STEP = 0.1
_RETRIED_SECONDS = 10.0


class ProgressBar:
    """Shows a run as a bar on a terminal, and as a plain line now and then elsewhere.

    The bar measures expected work, not the number of cells, since the long solves come first.

    Parameters
    ----------
    console : rich.console.Console
        The console to print on.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[cells]}"),
            _Remaining(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._bar = self._progress.add_task(
            "starting the cluster", total=1.0, start=False, cells="", rate=None
        )
        self._statuses: Counter[str] = Counter()
        self._todo = 0
        self._share = 0.0
        self._retried, self._next_retried = 0, 0.0
        self._told = 0.0
        self._began = time.monotonic()

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def __call__(self, event: Event) -> None:
        """Show an event."""
        match event:
            case RunStarted(cells=cells, todo=todo, reused=reused, tasks=tasks):
                self._todo = todo - reused
                self._console.print(_opening(event.experiment, cells, todo, reused))
                if event.deadly:
                    self._console.print(_deadly(event), markup=False)
                if event.hidden:
                    self._console.print(_hidden(event), markup=False)
                if tasks:
                    self._progress.start()
            case SegmentSetAside(path=path, said=said):
                self._console.print(f"{said}; it is {path!r} now", markup=False)
            case ClusterReady(workers=workers, threads=threads):
                if not self._progress.tasks[self._bar].started:
                    self._began = time.monotonic()
                    self._progress.start_task(self._bar)
                self._progress.update(self._bar, description=f"{workers} workers", cells=self._text)
                if not self._console.is_terminal:
                    self._console.print(f"{workers} workers with {threads} threads")
            case SchedulerLost(address=address, patience=patience):
                self._progress.update(self._bar, description="no scheduler")
                self._progress.console.print(
                    f"scheduler {address} is gone: waiting for one there (the run ends after "
                    f"{patience:g} s without)",
                    markup=False,
                )
            case WorkersMissing():
                self._progress.update(self._bar, description="no workers")
                self._progress.console.print(_missing(event), markup=False)
            case CellsDone(statuses=statuses, share=share):
                self._advance(Counter(statuses), share)
            case DatasetNotWritten(said=said) | ClusterExposed(said=said):
                self._progress.console.print(f"warning: {said}", markup=False)
            case TaskRetried(cells=cells):
                self._retried += cells
                if time.monotonic() >= self._next_retried:
                    self._tell_retried()
            case CellsAwaited(cells=cells):
                self._progress.console.print(
                    f"{cells} cells are still with workers of an earlier run: waiting for these"
                )
            case RunEnded():
                self._tell_retried()
                self._progress.stop()

    def _tell_retried(self) -> None:
        """Say it once for all that a worker, or several one after the other, leave to others."""
        if self._retried:
            text = f"workers were lost: {self._retried} cells are retried"
            self._progress.console.print(text)
        self._retried, self._next_retried = 0, time.monotonic() + _RETRIED_SECONDS

    def _advance(self, statuses: Counter[str], share: float) -> None:
        self._statuses += statuses
        self._share = min(self._share + share, 1.0)
        elapsed = time.monotonic() - self._began
        expected = elapsed / self._share if self._share else None
        self._progress.update(self._bar, completed=self._share, cells=self._text, rate=expected)
        if not self._console.is_terminal and self._share >= self._told + _PLAIN_STEP:
            self._told = self._share
            left = "" if expected is None else f", about {expected - elapsed:.0f} s left"
            self._console.print(f"{self._share:4.0%} of the work, {self._text}{left}")

    @property
    def _text(self) -> str:
        troubles = {k: n for k, n in self._statuses.items() if k != "ok"}
        said = "".join(f", {n} {k.replace('_', ' ')}" for k, n in sorted(troubles.items()))
        return f"{self._statuses.total()} of {self._todo} cells{said}"


class _Remaining(ProgressColumn):
    """Time left, extrapolated from the work done so far."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        expected = task.fields["rate"]
        if expected is None or task.elapsed is None:
            return Text("ETA -:--:--", style="progress.remaining")
        left = max(int(expected - task.elapsed), 0)
        text = f"ETA {left // 3600}:{left // 60 % 60:02d}:{left % 60:02d}"
        return Text(text, style="progress.remaining")


def _opening(name: str, cells: int, todo: int, reused: int) -> str:
    if not todo:
        return f"{name}: all {cells} cells are in the store already"
    already = f", {cells - todo} are in the store already" if todo < cells else ""
    shared = f", {reused} follow from earlier solves" if reused else ""
    return f"{name}: {cells} cells{already}, {todo} to do{shared}"


def _deadly(event: RunStarted) -> str:
    return (
        f"{event.deadly} cells stay lost: each killed its worker three times or more; "
        f"'sweep rerun {event.store}' tries them again"
    )


def _hidden(event: RunStarted) -> str:
    return (
        f"{event.hidden} cells of earlier runs are not in the experiment any more: they are kept, "
        "and shown again once their values are back (for instance by --set d=4,8); "
        f"'sweep forget {event.store} --hidden' drops them"
    )


def _missing(event: WorkersMissing) -> str:
    since = f" for {event.seconds:.0f} s" if event.seconds >= 1 else ""
    return (
        f"no workers{since}: {event.message} (the run ends after {event.patience:g} s without any)"
    )
