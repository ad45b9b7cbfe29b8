"""Checks of a chaos run: no result may differ from a run without faults, or be computed twice.

Work that was in flight when a process died may be computed twice.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr

from sweep.errors import DamagedSegmentError
from sweep.store.journal import SUFFIX, read_segment, run_of
from sweep.store.paths import locate
from sweep.store.records import FINAL, TROUBLED, BoundRecord, CellRecord

MEASURED = {"runtime_s", "cpu_s", "peak_memory_bytes", "started", "host", "attempt"}
"""Variables that differ between runs, because they describe the run and not the mechanism."""

CLOCKS_SECONDS = 0.5
"""Largest number of seconds by which a file's time may differ from a process's clock."""


@dataclass(frozen=True)
class Written:
    """A final result in the journal.

    Attributes
    ----------
    about : str
        The key of the solve, or of the problem for a bound.
    run : str
        The name of the run that wrote the result.
    began : float
        When the computation began, in seconds since 1970; for a bound, when it was written.
    since, until : float
        When the result was written, and when it was damaged; ``until`` is infinite if it never was.
    renewable : bool
        Whether ``sweep rerun`` repeats the computation, because it failed or was stopped.
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
    """Return all final results; results in damaged segments are valid until the damage.

    Parameters
    ----------
    journal : Path
        The journal's folder.
    sound : Path
        A folder with the original content of the damaged segments.
    damaged : Mapping of str to (float, float)
        For each damaged segment, by file name: when it appeared, and when it was damaged.
    """
    found = []
    for path in [*journal.glob(f"*{SUFFIX}"), *sound.glob(f"*{SUFFIX}")]:
        renamed = path.stat().st_ctime
        since, until = damaged.get(path.name, (renamed, np.inf))
        if path.parent == journal and path.name in damaged:
            continue
        try:
            records = list(read_segment(locate(path)))
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
    """Return the results that a run computed although the journal had a sound result before.

    Parameters
    ----------
    written : sequence of Written
        All final results.
    reruns : collection of str
        Names of the runs of ``sweep rerun``, which may repeat renewable results of other runs.
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
    """Return the second in which a run began, which is part of the run's name."""
    return int(run.split("-")[2][:8], base=16)


def differences(one: xr.DataTree, other: xr.DataTree) -> list[str]:
    """Return the paths of all variables that differ in a bit, or are in only one of two trees.

    If the trees have different groups, the first item is ``groups``.
    """
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
