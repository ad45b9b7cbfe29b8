"""Experiments and datasets written in Python for tests."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from sweep.experiment.loading import parse_experiment
from sweep.experiment.schema import Experiment
from sweep.grid.cells import Cell
from sweep.store.records import Status

SMALL = "reference: IP\nblocks: [{workload: {name: prefix, d: [2, 4]}, mechanism: [IP, GM]}]\n"
"""The file of an experiment of four cells."""


def block(workload: Any, mechanism: Any, **others: Any) -> dict[str, Any]:
    return {"workload": workload, "mechanism": mechanism, **others}


def prefix(d: Any, mechanism: Any, **others: Any) -> dict[str, Any]:
    return block({"name": "prefix", "d": d}, mechanism, **others)


def experiment(*blocks: dict[str, Any], **others: Any) -> Experiment:
    content = {"reference": "IP", "blocks": list(blocks), **others}
    return parse_experiment(json.dumps(content), "x.yaml")


def replicated(count: int, mechanism: str = "IP", more: str = "", d: int = 4) -> str:
    """The file of an experiment: one mechanism on prefixes of one size, repeated."""
    block = f"{{workload: {{name: prefix, d: {d}}}, mechanism: {mechanism}, replicates: {count}}}"
    return f"reference: {mechanism}\n{more}blocks: [{block}]\n"


def dataset(
    coords: Mapping[str, Sequence[Any]], numbers: Mapping[str, Any], status: Any = Status.OK
) -> xr.Dataset:
    """Variables and statuses over all coordinates, or constant along them."""
    dims, shape = tuple(coords), tuple(map(len, coords.values()))
    data = {name: (dims, np.broadcast_to(value, shape)) for name, value in numbers.items()}
    states = np.broadcast_to(np.asarray(status, dtype=np.int8), shape)
    return xr.Dataset({**data, "status": (dims, states)}, {k: list(v) for k, v in coords.items()})


def workload_key(cell: Cell) -> str:
    return cell.key("workload", cell.replicate)


def problem_key(cell: Cell) -> str:
    return cell.key("problem", cell.replicate)


def solve_key(cell: Cell) -> str:
    return cell.key("solve", cell.replicate)


MEASURED = dataset(
    {"d": [4, 8], "mechanism": ["CA", "IP", "GM"]},
    {"variance_ratio": [[1, 2.5, 3], [1, 5, 7]], "gap": 0.0123},
)
REPLICATED = dataset(
    {"d": [4, 8], "replicate": [0, 1, 2], "mechanism": ["CA", "IP"]},
    {"variance_ratio": [[[1, 2], [1, 4], [1, 6]], [[1, 8], [1, 9], [1, 77]]], "gap": 0.25},
    [
        [[Status.OK, Status.OK]] * 3,
        [[Status.OK, Status.OK], [Status.OK, Status.OK], [Status.OK, Status.FAILED]],
    ],
)


def compared(**content: Any) -> Experiment:
    """The experiment of `MEASURED` and `REPLICATED`, whose reference is CA."""
    blocks = [block({"name": "prefix", "d": [4, 8]}, ["IP", "CA"])]
    return parse_experiment(json.dumps({"blocks": blocks, "reference": "CA", **content}), "x.yaml")


def described(data: xr.Dataset, **content: Any) -> tuple[xr.Dataset, Experiment]:
    """The dataset with the attributes that identify its experiment, and the experiment."""
    made = compared(**content)
    return data.assign_attrs(experiment=made.name, experiment_text=made.text), made
