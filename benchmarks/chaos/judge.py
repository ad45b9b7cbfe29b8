"""The requirements after a chaos run: all results, equal to those without faults, none repeated.

Work that was in flight when something died may be computed twice.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr

from sweep.errors import DamagedSegmentError
from sweep.store.journal import SUFFIX, read_segment, run_of
from sweep.store.records import FINAL, TROUBLED, BoundRecord, CellRecord

MEASURED = {"runtime_s", "cpu_s", "peak_memory_bytes", "started", "host", "attempt"}
"""Variables that describe the run, not the mechanism."""

CLOCKS_SECONDS = 0.5
"""Largest difference between a file's time and a process's clock."""


@dataclass(frozen=True)
class Written:
    """A final result in the journal.

    Attributes
    ----------
    about : str
        The cell or problem of the result.
    run : str
        The run that wrote it.
    began : float
        The time at which it was begun, or a little later.
    since, until : float
        The times from which it existed, and until which it was undamaged.
    renewable : bool
        Whether ``sweep rerun`` computes it again: it failed or was stopped.
    """

    about: str
    run: str
    began: float
    since: float
    until: float
    renewable: bool = False


def written(
    journal: Path, sound: Path, damaged: Mapping[str, tuple[float, float]]
) -> list[Written]:
    """All final results; those of damaged segments are valid until the damage.

    Parameters
    ----------
    journal : Path
        The journal's folder.
    sound : Path
        A folder with the original content of the damaged segments.
    damaged : Mapping of str to (float, float)
        For each damaged segment, by file name, when it appeared and when it was damaged.
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
        for record in records:
            is_cell = isinstance(record, CellRecord)
            if not (isinstance(record, BoundRecord) or (is_cell and record.status in FINAL)):
                continue
            about, began = (record.solve, record.started) if is_cell else (record.problem, since)
            renewable = record.status in TROUBLED if is_cell else bool(record.error)
            found.append(Written(about, run_of(path.name), began, since, until, renewable))
    return found


def computed_twice(written: Sequence[Written], reruns: Collection[str] = ()) -> list[Written]:
    """The results that a run computed although a sound result was in the journal when it began.

    Parameters
    ----------
    written : sequence of Written
        The recorded results.
    reruns : collection of str
        The runs by ``sweep rerun``, which repeat renewable results of others.
    """
    by_about: dict[str, list[Written]] = {}
    for one in written:
        by_about.setdefault(one.about, []).append(one)
    return [
        one
        for one in written
        if any(
            known.since + CLOCKS_SECONDS < beginning(one.run) and one.began < known.until
            for known in by_about[one.about]
            if known.run != one.run and not (known.renewable and one.run in reruns)
        )
    ]


def beginning(run: str) -> float:
    """The second in which a run began, from its name."""
    return int(run.split("-")[2][:8], base=16)


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
