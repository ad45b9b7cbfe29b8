"""Where results come from and how complete they are, for everything that leaves the store."""

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
    return {one.label: counted[one.label] for one in Status if counted[one.label]}


def state(results: Results) -> str:
    """Whether the results are complete, or how many cells are in which state."""
    found = statuses(results)
    total = sum(found.values())
    if found.keys() <= {"ok", "not_applicable"}:
        return f"complete ({total:,} cells)"
    said = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in found.items())
    return f"{said} of {total:,} cells"


def facts(results: Results) -> dict[str, str]:
    """What a file says of its origin: experiment, state, revision, neighbours."""
    known = results.attrs
    return {
        "experiment": str(known.get("experiment", "")),
        "source": str(known.get("source", "")),
        "state": state(results),
        "revision": str(known.get("git_revision", "")),
        "neighbours": str(known.get("neighbours", NEIGHBOURS)),
        "journal": str(known.get("journal_state", "")),
    }
