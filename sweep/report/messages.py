"""Shows the events of a run as sentences, and as a progress bar."""

import math
import re
from collections.abc import Iterable, Mapping

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from sweep import events
from sweep.errors import command
from sweep.runner.status import Trouble
from sweep.store.records import TROUBLED, Status

DONE = (Status.OK, Status.NOT_APPLICABLE)
"""The statuses of finished cells; failed, timed-out and lost cells are counted separately."""


def describe(event: events.Event) -> str:
    """Return a sentence that describes an event."""
    match event:
        case events.RunStarted():
            return _describe_start(event)
        case events.Warned(message=text):
            return f"warning: {text}"
        case events.ClusterReady(workers=workers, threads=threads, dashboard=dashboard):
            return f"{counted(workers, 'worker')} with {counted(threads, 'thread')}" + (
                f"; dashboard: {dashboard}" if dashboard else ""
            )
        case events.WorkersMissing(seconds=seconds, patience=patience, message=reason):
            since = f" for {format_duration(seconds)}" if seconds >= 1 else ""
            without = f"(the run ends after {format_duration(patience)} without any)"
            return f"no workers{since}: {reason} {without}"
        case events.WorkerLeft(worker=worker, workers=workers):
            return f"worker {worker} has left; {counted(workers, 'worker')} remain"
        case events.TaskRetried(cells=cells):
            return f"a worker was lost: retrying {counted(cells, 'cell')}"
        case events.CellsDone(statuses=statuses, task=task):
            return f"task {task}: {format_counts(statuses) or 'a certificate'}"
        case events.DatasetWritten(path=path, seconds=seconds):
            return f"dataset written in {format_duration(seconds)}: {path}"
        case events.RunEnded(statuses=statuses, seconds=seconds, interrupted=interrupted):
            how = "interrupted" if interrupted else "ended"
            return f"run {how} after {format_duration(seconds)}: {format_counts(statuses)}"
        case events.Progressed():
            parts = [f"{event.share:.0%} of the work", format_done(event.statuses, event.cells)]
            parts += [format_rate(event)] if event.rate else []
            return ", ".join([*parts, format_time_left(event)])


def describe_more(event: events.RunStarted) -> list[str]:
    """Return further sentences about a run that is starting."""
    sentences = []
    if event.deadly:
        sentences.append(
            f"{event.deadly} cells stay lost: each killed its worker three times or more; "
            f"{command('rerun', event.store)} tries them again"
        )
    if event.hidden:
        sentences.append(
            f"{event.hidden} cells of earlier runs are no longer in the experiment: they are "
            "kept, and shown again once their values are back (for instance by --set d=4,8); "
            f"{command('forget', event.store, '--hidden')} drops them"
        )
    return sentences


def format_done(statuses: Mapping[str, int], total: int) -> str:
    """Format the numbers of finished and of troubled cells: ``11 of 20 cells, 1 failed``."""
    finished = sum(statuses.get(status.label, 0) for status in DONE)
    apart = format_counts({one.label: statuses.get(one.label, 0) for one in TROUBLED})
    return f"{finished:,} of {total:,} cells{apart and f', {apart}'}"


def format_rate(progress: events.Progressed) -> str:
    """Format the rate in cells per second; a low rate in cells per minute or hour."""
    units = {"s": 1.0, "min": 60.0, "h": 3600.0}
    unit = next((unit for unit in units if progress.rate * units[unit] >= 1.0), "h")
    return f"{progress.rate * units[unit]:.3g} cells/{unit}"


def format_time_left(progress: events.Progressed) -> str:
    """Format the estimated time left: ``1 h 23 left (1 h 05 to 1 h 47)``."""
    if progress.left_s is None:
        return "time left not known yet" if progress.threads else "no workers"
    expected, least, most = progress.left_s
    if most < 60.0:
        return "less than a minute left" if expected else "nothing left"
    low, high = format_duration(least), format_duration(most)
    return f"{format_duration(expected)} left" + (f" ({low} to {high})" if low != high else "")


def format_duration(seconds: float) -> str:
    """Format a duration: ``3 ms``, ``40 s``, ``25 min``, ``1 h 05``, ``3 days``."""
    if not math.isfinite(seconds) or seconds >= 1000 * 86400:
        return "more than a thousand days"
    minutes = round(seconds / 60)
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 99.5:
        return f"{seconds:.2g} s"
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60:02d}"
    return f"{seconds / 86400:.0f} days"


def format_core_hours(seconds: float) -> str:
    """Convert core-seconds to core-hours, as text."""
    return f"{seconds / 3600.0:.3g}"


def format_counts(statuses: Mapping[str, int]) -> str:
    """Format the number of cells of each status, in the order of `Status`: ``12 ok, 1 failed``."""
    named = ((status.label, statuses.get(status.label, 0)) for status in Status)
    return ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in named if count)


def counted(count: int, what: str) -> str:
    """Format a number with its noun: ``1 cell``, ``1,200 cells``."""
    return f"{count:,} {what}{'s' * (count != 1)}"


def describe_remaining(ended: events.RunEnded, store: str) -> list[str]:
    """Return sentences on unfinished cells, with the commands that explain or solve them."""
    sentences = []
    if any(ended.statuses.get(status.label) for status in TROUBLED):
        longer = "--time-limit SECONDS" if ended.statuses.get(Status.TIMEOUT.label) else ""
        retry = command("rerun", store, longer)
        sentences.append(f"{command('status', store, '--errors')} shows why; {retry} retries them")
    if pending := ended.statuses.get("pending", 0):
        sentences.append(f"pending: {counted(pending, 'cell')}; 'sweep run' continues")
    return sentences


def group_alike(troubles: Iterable[Trouble]) -> list[list[Trouble]]:
    """Group troubles by reason, ignoring numbers in a reason; the largest group comes first."""
    groups: dict[str, list[Trouble]] = {}
    for trouble in troubles:
        groups.setdefault(re.sub(r"\d[\d.]*", "#", trouble.record.reason), []).append(trouble)
    return sorted(groups.values(), key=len, reverse=True)


def _describe_start(event: events.RunStarted) -> str:
    if not event.todo:
        all_cells = "its only cell is" if event.cells == 1 else f"all {event.cells:,} cells are"
        return f"{event.experiment}: {all_cells} already in the store"
    stored = event.cells - event.todo
    already = f", {stored:,} already in the store" if stored else ""
    shared = f", {event.reused:,} from earlier solves" if event.reused else ""
    cells = counted(event.cells, "cell")
    return f"{event.experiment}: {cells}{already}, {event.todo:,} to do{shared}"


_PLAIN_STEP = 0.1
"""Share of the work after which a run without a terminal prints a further line: ten in all."""
_LESS = 1e-9
"""Shares are sums of many floats, so that 0.3 may be reached as 0.29999999999999999."""


class ProgressBar(Progress):
    """Shows a run as a bar on a terminal, and as occasional plain lines elsewhere.

    The bar measures work, not the number of cells, because the longest solves run first.

    Attributes
    ----------
    ended : RunEnded, optional
        The run's last event; None until the run has ended.
    """

    def __init__(self, console: Console) -> None:
        super().__init__(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[cells]}"),
            TextColumn("{task.fields[left]}", style="progress.remaining"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._bar = self.add_task("starting", total=1.0, start=False, cells="", left="")
        self._retried, self._last_share = 0, 0.0
        self.ended: events.RunEnded | None = None

    def __call__(self, event: events.Event) -> None:
        """Show an event on the bar or as a line."""
        lines = [describe(event)]
        match event:
            case events.RunStarted():
                lines += describe_more(event)
            case events.ClusterReady(workers=workers):
                self.start_task(self._bar)
                self.update(self._bar, description=counted(workers, "worker"))
            case events.Progressed(workers=workers, share=share):
                cells, left = format_done(event.statuses, event.cells), format_time_left(event)
                self.update(self._bar, completed=share, cells=cells, left=left)
                if workers:
                    self.update(self._bar, description=counted(workers, "worker"))
                if share < self._last_share + _PLAIN_STEP - _LESS or self.console.is_terminal:
                    return
                self._last_share = share
            case events.WorkersMissing():
                self.update(self._bar, description="no workers")
            case events.TaskRetried(cells=cells_lost):
                self._retried += cells_lost
                return
            case events.RunEnded():
                self.ended, lines = event, []
                if self._retried:
                    lines.append(f"workers were lost; cells sent again: {self._retried:,}")
                self.stop()
            case events.CellsDone() | events.DatasetWritten() | events.WorkerLeft():
                return
        for line in lines:
            self.console.print(line, markup=False)
