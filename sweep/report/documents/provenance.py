"""The origin and the completeness of results, for everything that leaves the store."""

from collections import Counter

from sweep.report.numbers import frames
from sweep.report.numbers.frames import Results
from sweep.store.records import Status

NEIGHBOURS = "add-remove"
"""The neighbours of the privacy guarantee, unless the dataset names others."""


def statuses(results: Results) -> dict[str, int]:
    """Number of cells by status, in the order of `Status`; a cell of two groups counts once."""
    cells = frames.to_frame(results)
    if "cell" in cells and cells["cell"].notna().all():
        cells = cells.drop_duplicates("cell")
    counted = Counter(cells["status"])
    return {status.label: counted[status.label] for status in Status if counted[status.label]}


def state(results: Results) -> str:
    """Whether the results are complete, or how many cells are in which state."""
    counts = statuses(results)
    total = sum(counts.values())
    if counts.keys() <= {"ok", "not_applicable"}:
        return f"complete ({total:,} cells)"
    summary = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items())
    return f"{summary} of {total:,} cells"


def facts(results: Results) -> dict[str, str]:
    """The facts that a file states about its origin: experiment, state, revision, neighbours."""
    known = results.attrs
    return {
        "experiment": str(known.get("experiment", "")),
        "source": str(known.get("source", "")),
        "state": state(results),
        "revision": str(known.get("git_revision", "")),
        "neighbours": str(known.get("neighbours", NEIGHBOURS)),
        "journal": str(known.get("journal_state", "")),
    }
