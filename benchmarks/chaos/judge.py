"""What a chaos run must leave: every result, the same as without faults, none solved once recorded.

What was in flight when something died may be solved twice.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr

from sweep.errors import DamagedSegmentError
from sweep.store.journal import DAMAGED, SUFFIX, read_segment, run_of
from sweep.store.records import BoundRecord, CellRecord, Record, Status

MEASURED = {"runtime_s", "cpu_s", "peak_memory_bytes", "started", "host", "attempt"}
"""Variables that tell of the run, not of the mechanism."""

CLOCKS_SECONDS = 0.5
"""By how much a file's time and a process's clock may differ."""


@dataclass(frozen=True)
class Written:
    """A final result in the journal.

    Attributes
    ----------
    about : str
        What it is a result of.
    run : str
        Which run has written it.
    since, until : float
        From when it was there, and until when it was sound.
    renewable : bool
        Whether ``sweep rerun`` computes it again: a failure, or what was stopped.
    """

    about: str
    run: str
    since: float
    until: float
    renewable: bool = False


@dataclass(frozen=True)
class Begun:
    """A solve or a certificate that a worker began, and when its task looked for what is there."""

    about: str
    run: str
    since: float
    until: float


def begun(path: Path) -> list[Begun]:
    """What the workers began, from the file that they note it in."""
    return [Begun(**json.loads(line)) for line in path.read_text().splitlines()]


def written(
    journal: Path, sound: Path, damaged: Mapping[str, tuple[float, float]]
) -> list[Written]:
    """All final results; those of damaged segments until they were damaged.

    Parameters
    ----------
    journal : Path
        The journal's folder.
    sound : Path
        A folder with the damaged segments as they were before.
    damaged : Mapping of str to (float, float)
        When each of them was there, and when it was damaged, by file name.
    """
    found = []
    for path in [*journal.glob(f"*{SUFFIX}"), *sound.glob(f"*{SUFFIX}")]:
        renamed = path.stat().st_ctime
        since, until = damaged.get(path.name, (renamed, np.inf))
        if path.parent == journal and path.name in damaged:
            continue
        try:
            records = read_segment(path)
        except DamagedSegmentError:
            continue
        run = run_of(path.name)
        found += [
            Written(_about(record), run, since, until, _is_renewable(record))
            for record in records
            if _is_final(record)
        ]
    return found


def computed_twice(
    begun: Iterable[Begun], written: Iterable[Written], reruns: Collection[str] = ()
) -> list[Begun]:
    """What was begun although its sound result was in the journal.

    Parameters
    ----------
    begun : iterable of Begun
        What was begun.
    written : iterable of Written
        What was recorded.
    reruns : collection of str
        The runs by ``sweep rerun``, which compute again what others have left renewable.
    """
    by_about: dict[str, list[Written]] = {}
    for one in written:
        by_about.setdefault(one.about, []).append(one)
    return [
        one
        for one in begun
        if any(
            _was_there(known, one)
            for known in by_about.get(one.about, ())
            if not (known.renewable and one.run in reruns and one.run != known.run)
        )
    ]


def _was_there(known: Written, one: Begun) -> bool:
    """Whether a sound result was there when this run, or its own task, looked for it."""
    looked = one.since if known.run == one.run else beginning(one.run)
    return known.since + CLOCKS_SECONDS < looked and one.until < known.until


def beginning(run: str) -> float:
    """The second in which a run began, from its name."""
    return int(run.split("-")[2][:8], base=16)


def recorded(journal: Path) -> Counter[str]:
    """How many sound records with status ok every cell has."""
    counted: Counter[str] = Counter()
    for path in journal.glob(f"*{SUFFIX}"):
        try:
            records = read_segment(path)
        except DamagedSegmentError:
            continue
        counted.update(
            r.cell for r in records if isinstance(r, CellRecord) and r.status is Status.OK
        )
    return counted


def set_aside(journal: Path) -> int:
    """How many damaged segments were found and kept."""
    return len(list(journal.glob(f"*{SUFFIX}{DAMAGED}")))


def differences(one: xr.DataTree, other: xr.DataTree) -> list[str]:
    """Variables whose values differ in any bit, and other differences."""
    wrong = [] if set(one.groups) == set(other.groups) else ["groups"]
    for group in sorted(set(one.groups) & set(other.groups)):
        here, there = one[group].to_dataset(), other[group].to_dataset()
        names = sorted({*map(str, here.variables), *map(str, there.variables)} - MEASURED)
        wrong += [
            f"{group}/{name}"
            for name in names
            if name not in here or name not in there or not _same_bits(here[name], there[name])
        ]
    return wrong


def _same_bits(one: xr.DataArray, other: xr.DataArray) -> bool:
    return (
        one.dtype == other.dtype
        and one.equals(other)
        and (one.dtype.kind != "f" or bool(np.array_equal(np.signbit(one), np.signbit(other))))
    )


def _about(record: Record) -> str:
    if isinstance(record, CellRecord):
        return record.solve
    return record.problem if isinstance(record, BoundRecord) else ""


def _is_final(record: Record) -> bool:
    """Whether ``sweep run`` leaves what it is about alone."""
    return isinstance(record, BoundRecord) or (
        isinstance(record, CellRecord) and record.status.final
    )


def _is_renewable(record: Record) -> bool:
    if isinstance(record, CellRecord):
        return record.status.troubled
    return isinstance(record, BoundRecord) and bool(record.error)
