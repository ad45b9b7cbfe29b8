"""`sweep scorecard`: run what is missing, judge it, write it down."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from sweep.errors import SweepError
from sweep.experiment.loading import experiments, load_experiment
from sweep.experiment.schema import Experiment
from sweep.report import output
from sweep.report.judgement.reproduction_page import filled, markdown
from sweep.report.judgement.scorecard import Scorecard, read, score
from sweep.report.judgement.verdict_tables import verdict_tables
from sweep.report.messages import ProgressBar
from sweep.store.records import Status

FORMATS = ("text", "markdown", "json")


def chosen(names: Sequence[str]) -> dict[str, Experiment]:
    """The experiments of these names or files, or all that ship with a number or a claim to judge.

    Raises
    ------
    ExperimentError
        If there is no such experiment, or it is not valid.
    """
    if names:
        return {name: load_experiment(name) for name in names}
    shipped = {name: load_experiment(name) for name in experiments()}
    return {n: entry for n, entry in shipped.items() if entry.scorecard and entry.is_compared}


def quick_sizes(wanted: Mapping[str, Experiment]) -> list[Experiment]:
    """Those experiments, cut to the sizes that they call quick."""
    return [load_experiment(name, entry.quick) for name, entry in wanted.items()]


def run(wanted: Sequence[Experiment], stores: Path, console: Console, **options: Any) -> None:
    """Solve what the stores of some experiments do not hold yet, one after the other.

    Options and errors are those of `sweep.runner.commands.run`.
    """
    from sweep.runner import commands

    for experiment in wanted:
        with ProgressBar(console) as bar:
            commands.run(experiment, stores / experiment.name, listen=bar, **options)


def unfinished(card: Scorecard) -> int:
    """Number of cells that failed, timed out, were lost or are pending."""
    quiet = (Status.OK.label, Status.NOT_APPLICABLE.label)
    return sum(
        count for run in card.runs for name, count in run.statuses.items() if name not in quiet
    )


def check_outputs(outputs: Sequence[Path], *, part: bool) -> None:
    """Refuse files that a scorecard cannot be written to, before anything is run.

    Raises
    ------
    SweepError
        If one is neither JSON nor a page with marked sections, its folder does not exist, or it
        cannot be written.
    """
    for path in outputs:
        if path.suffix not in (".json", ".md"):
            raise SweepError(
                f"cannot write a scorecard to {str(path)!r}; expected FILE.json, or FILE.md with "
                "sections to fill in"
            )
        if not path.parent.is_dir():
            raise SweepError(f"there is no folder {str(path.parent)!r} to write {path.name!r} to")
        output.check(path)
        if part and path.suffix == ".json" and path.exists():
            read(path)
        if path.suffix == ".md":
            filled(_page(path), score([], Path()))


def write(card: Scorecard, outputs: Sequence[Path], *, part: bool) -> None:
    """Write a scorecard to JSON files and into the marked sections of pages.

    One of a part of the experiments keeps the others of the first JSON file, if that exists.

    Raises
    ------
    SweepError
        If a file cannot be written, or a page has no such section.
    """
    before = [path for path in outputs if path.suffix == ".json" and path.exists()]
    if part and before:
        card = read(before[0]).updated(card)
    for path in outputs:
        output.write(path, card.text() if path.suffix == ".json" else filled(_page(path), card))


def show(card: Scorecard, format_: str, console: Console) -> None:
    """Print a scorecard."""
    if format_ == "text":
        for table in verdict_tables(card):
            console.print(table, markup=False)
            console.print()
        return
    text = card.text() if format_ == "json" else markdown(card)
    console.print(text, markup=False, soft_wrap=True, end="")


def _page(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SweepError(
            f"page {str(path)!r} cannot be read ({error}); a page has to exist, with sections "
            "'<!-- scorecard: NAME -->' to fill in"
        ) from error
