"""The part of a store's results that solves the problems of an experiment's file."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from sweep.experiment.schema import Experiment
from sweep.experiment.variables import OF_REFERENCE
from sweep.grid.grids import Grid
from sweep.report import frames
from sweep.report.frames import labels_of
from sweep.store.records import Status


def comparable(
    experiment: Experiment, grids: Sequence[Grid], results: frames.Results
) -> tuple[dict[str, xr.Dataset], tuple[str, ...]]:
    """The results that an experiment's numbers and claims are about, by group, and what is not.

    A store may hold the same experiment with other targets or options under the same labels: its
    cells have other solve keys. Ratios to another reference are left out, as are other budgets.
    """
    groups: dict[str, xr.Dataset] = {}
    others = 0
    stored, known = frames.experiment_of(results), frames.groups(results)
    for grid in grids:
        data = known.get(grid.group)
        if data is None:
            continue
        there = data["status"] != Status.ABSENT
        alike = there & np.isin(data["solve"], grid.cells.solve_keys.astype(np.str_))
        others += int((there & ~alike).sum())
        if alike.any():
            status = data["status"].where(alike, np.int8(Status.ABSENT))
            groups[grid.group] = _of(experiment, data.assign(status=status), stored)
    remarks = [f"{others:,} cell{'s' * (others != 1)} of other problems" if others else ""]
    if stored.reference != experiment.reference:
        remarks.append(f"ratios to {stored.reference} instead of {experiment.reference}")
    return groups, tuple(filter(None, remarks))


def _of(experiment: Experiment, data: xr.Dataset, stored: Experiment) -> xr.Dataset:
    """The labels that have cells, the budgets of the experiment, and ratios to its reference."""
    there = data["status"] != Status.ABSENT
    kept = {
        str(dim): np.flatnonzero(there.any([other for other in there.dims if other != dim]))
        for dim in there.dims
    }
    for name in ("epsilon", "delta"):
        if name in data.dims and name not in kept:
            kept[name] = np.flatnonzero(np.isin(labels_of(data, name), getattr(experiment, name)))
    if stored.reference != experiment.reference:
        data = data.drop_vars(OF_REFERENCE, errors="ignore")
    return data.isel(kept)
