"""A progress bar for the events of a run."""

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from sweep import events
from sweep.report.terminal import messages

_PLAIN_STEP = 0.1
_RETRIED_SECONDS = 10.0
_LESS = 1e-9


class ProgressBar:
    """Shows a run as a bar on a terminal, and as occasional plain lines elsewhere.

    The bar measures work, not the number of cells, since the long solves come first.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[cells]}"),
            TextColumn("{task.fields[left]}", style="progress.remaining"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._bar = self._progress.add_task(
            "starting the cluster", total=1.0, start=False, cells="", left=""
        )
        self._retried, self._next_retried = 0, 0.0
        self._told = 0.0
        self._dashboard = ""

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(self, *raised: object) -> None:
        self._progress.stop()

    def __call__(self, event: events.Event) -> None:
        """Show an event."""
        match event:
            case events.RunStarted():
                self._say(event)
                for remark in messages.remarks(event):
                    self._console.print(remark, markup=False)
                if event.tasks:
                    self._progress.start()
            case events.ClusterReady():
                self._progress.start_task(self._bar)
                self._progress.update(
                    self._bar, description=messages.counted(event.workers, "worker")
                )
                if event.dashboard not in ("", self._dashboard) or not self._console.is_terminal:
                    self._say(event)
                self._dashboard = event.dashboard
            case events.Progressed():
                self._advance(event)
            case events.SchedulerLost() | events.SchedulerSilent():
                self._progress.update(self._bar, description="no scheduler")
                self._say(event)
            case events.WorkersMissing():
                self._progress.update(self._bar, description="no workers")
                self._say(event)
            case events.TaskRetried(cells=cells):
                self._retried += cells
                if time.monotonic() >= self._next_retried:
                    self._tell_retried()
            case events.RunEnded():
                self._tell_retried()
                self._progress.stop()
            case events.CellsDone() | events.DatasetWritten() | events.OutputClosed():
                pass
            case _:
                self._say(event)

    def _tell_retried(self) -> None:
        """Report retried cells once, even if several workers were lost in a row."""
        if self._retried:
            cells = messages.counted(self._retried, "cell")
            self._progress.console.print(f"workers were lost: retrying {cells}")
        self._retried, self._next_retried = 0, time.monotonic() + _RETRIED_SECONDS

    def _say(self, event: events.Event) -> None:
        self._progress.console.print(messages.message(event), markup=False)

    def _advance(self, event: events.Progressed) -> None:
        if event.workers:
            self._progress.update(self._bar, description=messages.counted(event.workers, "worker"))
        cells, left = messages.done(event), messages.left(event)
        self._progress.update(self._bar, completed=event.share, cells=cells, left=left)
        if not self._console.is_terminal and event.share >= self._told + _PLAIN_STEP - _LESS:
            self._told = event.share
            self._say(event)
