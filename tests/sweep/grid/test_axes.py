"""The grid of a block: hand-counted axes, labels, and mechanisms that share a solve."""

import math

import pytest
from written import block, experiment, prefix, solve_key

import solvers
import workloads
from sweep.grid.expansion import expand, lay_out


def grids(*blocks, **others):
    return expand(experiment(*blocks, **others))


def grid(*blocks, **others):
    (only,) = grids(*blocks, **others)
    return only


def axes(of):
    return {axis.name: axis.values for axis in of.axes}


def test_a_function_of_ones_own_is_labelled_by_its_name():
    entries = [
        {"name": "entry-point", "function": ["mine:first", "mine:second"]},
        {"name": "entry-point", "function": "mine:third", "label": "own"},
        {"name": "entry-point", "function": ["mine:fourth", "mine:fifth"], "label": "own"},
    ]
    (found,) = lay_out(experiment(prefix(4, entries)))
    listed = ("own (function=mine:fourth)", "own (function=mine:fifth)")
    assert found.axes[-1].values == ("mine:first", "mine:second", "own", *listed)


MARGINALS = {"name": "marginals"}

PREFIX, RANGE = {"name": "prefix", "d": 4}, {"name": "range", "d": 4}

MAYBE = [
    {"name": name, "preset": preset, "when": "available"}
    for name, preset in (("nonesuch", None), ("CA", "nonesuch"), ("CA", None))
]

TREES = {"name": "HM", "branching": [2, "sqrt"]}

LAID_OUT = {
    "a product has a cell for every combination": (
        {"d": (4, 8), "targets": ("uniform", "random"), "replicate": range(5), "workload": "range"},
        block({**RANGE, "d": [4, 8]}, "IP", targets=["uniform", "random"], replicates=5),
    ),
    "a condition leaves labels out": ({"d": (4, 16)}, prefix([4, 8, 16], "IP", where="d != 8")),
    "lists of options and presets label mechanisms of their own": (
        {"mechanism": ("HM (branching=2)", "HM (branching=sqrt)", "COA (published)"), "d": 4},
        prefix(4, [TREES, {"name": "COA", "preset": "published"}]),
    ),
    "unavailable mechanisms are left out when asked": (
        {"mechanism": ("IP", "CA")},
        prefix(4, ["IP", *MAYBE]),
    ),
    "a list is a dimension even of one": (
        {"d": (4,), "targets": ("uniform",), "workload": "prefix"},
        prefix([4], ["IP"], targets=["uniform"]),
    ),
    "a list parameter is a value": (
        {"values": "2,3,4", "orders": "1"},
        block({**MARGINALS, "values": [2, 3, 4], "orders": [1]}, "IP"),
    ),
    "an axis that says so": (
        {"values": (2, 3)},
        block({**MARGINALS, "values": {"axis": [2, 3]}}, "IP"),
    ),
    "a parameter of the targets": (
        {"k": (1.0, 2.5), "targets": "total"},
        block({"name": "identity-sum", "d": 4}, "IP", targets={"name": "total", "k": [1, 2.5]}),
    ),
    "a name that workload and targets share": (
        {"seed": (0, 1), "targets_seed": 5},
        block({**RANGE, "seed": [0, 1]}, "IP", targets={"name": "random", "seed": 5}),
    ),
    "an option that the mechanisms share": (
        {"tol": (1e-2, 1e-4), "mechanism": ("CA", "wCA-I")},
        block(PREFIX, ["CA", "wCA-I"], options={"tol": [1e-2, 1e-4]}),
    ),
    "scalars that differ between blocks": (
        {"workload": ("prefix", "range"), "targets": ("uniform", "random"), "d": 4},
        block(PREFIX, "IP", targets="uniform"),
        block(PREFIX, "IP", targets="random"),
        block(RANGE, "IP", targets="uniform", group="prefix"),
    ),
    "the default of what another block varies": (
        {"probability": (0.5, 0.2)},
        block({"name": "random", "d": 4, "probability": [0.5]}, "IP"),
        block({"name": "random", "d": 4}, "IP"),
    ),
    "coordinates that blocks zip differently": (
        {"d": (4, 8), "m": (3, 5, 6)},
        block({**RANGE, "d": [4, 8], "m": [3, 5]}, "IP", zip=[["d", "m"]]),
        block({**RANGE, "m": 6}, "IP"),
    ),
    "a block without cells": (
        {"d": (4,), "workload": "prefix", "m": None},
        block({**PREFIX, "d": [4]}, "IP"),
        block({**RANGE, "m": [3]}, "IP", group="prefix", where="d > 4"),
    ),
    "labels of mixed types are texts": (
        {"m": ("2", "none")},
        block({**RANGE, "m": 2}, "IP"),
        block(RANGE, "IP"),
    ),
}

"""The labels along every axis and, without parentheses, some scalars; the blocks. The mechanism is
IP where nothing else is said."""


@pytest.mark.parametrize(
    ("expected", "blocks"), [(x, y) for x, *y in LAID_OUT.values()], ids=LAID_OUT
)
def test_what_is_written_becomes_dimensions_and_scalars(expected, blocks):
    made = grid(*blocks)
    found = {**made.scalars, **axes(made)}
    wanted = {"mechanism": ("IP",), **expected}
    assert {name: found.get(name) for name in wanted} == wanted
    several = {name: labels for name, labels in wanted.items() if isinstance(labels, tuple | range)}
    assert axes(made).keys() == several.keys()
    if len(blocks) == 1:
        count = math.prod(map(len, several.values()))
        assert len({cell.id for cell in made.cells}) == len(made.cells) == count
        assert len({tuple(cell.coords.items()) for cell in made.cells}) == count


@pytest.mark.parametrize(
    ("more", "companion"),
    [
        ({"workload": {**RANGE, "d": [4, 8], "m": [3, 5]}}, {"m": (3, 5)}),
        ({"targets": ["uniform", "random"]}, {"targets": ("uniform", "random")}),
    ],
)
def test_zipped_axes_make_one_dimension_with_companions(more, companion):
    (name,) = companion
    written = {"workload": {**RANGE, "d": [4, 8]}, "mechanism": "IP", "zip": [["d", name]], **more}
    made = grid(block(**written))
    assert axes(made) == {"d": (4, 8), "mechanism": ("IP",)}
    assert dict(made.axes[0].companions) == companion
    assert [cell.workload.params["d"] for cell in made.cells] == [4, 8]


def solves(cells):
    return len({solve_key(cell) for cell in cells})


def test_weighted_ca_with_equal_targets_is_solved_once_as_ca():
    mechanisms = ["CA", "wCA-I", "wCA-II"]
    assert solves(grid(prefix(4, mechanisms)).cells) == 1
    assert solves(grid(prefix(4, mechanisms, targets="random")).cells) == 3
    other = ["CA", {"name": "wCA-I", "tol": 1e-3}, {"name": "wCA-II", "tol": 1e-4}]
    made = grid(prefix(4, other))
    assert solves(made.cells) == 3
    assert {cell.solved.name for cell in made.cells} == {"CA"}


def test_what_is_solved_for_another_mechanism_is_that_mechanisms_result():
    (cell,) = grid(prefix(8, "wCA-I")).cells
    workload = workloads.make(cell.workload.name, **cell.workload.params)
    asked, solved = (
        solvers.solve(spec.name, workload, **spec.params).squared_privacy_cost
        for spec in (cell.mechanism, cell.solved)
    )
    assert solved == pytest.approx(asked, rel=1e-6)
