"""Expansion: hand-counted grids, shared solves, and identities that depend only on content."""

import math
import random
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from written import block, experiment, prefix, problem_key, solve_key, workload_key

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


def test_conditions_and_blocks_leave_holes():
    made = grid(prefix([4, 8, 16], ["IP", "CA"], where="d <= 8 or mechanism != 'CA'"))
    assert len(made.cells) == 5
    assert axes(made)["d"] == (4, 8, 16)
    few = "mechanism != 'CA' or replicate < 1"
    for replicates, count in ((1, 2), (3, 4)):
        made = grid(prefix(4, ["IP", "CA"], where=few, replicates=replicates))
        assert len(made.cells) == count
    made = grid(prefix([4, 8], ["IP", "CA"]), prefix([8, 16], ["CA", "HM"]))
    assert axes(made) == {"d": (4, 8, 16), "mechanism": ("IP", "CA", "HM")}
    points = {(cell.coords["d"], cell.coords["mechanism"]) for cell in made.cells}
    assert points == {*product((4, 8), ("IP", "CA")), *product((8, 16), ("CA", "HM"))}
    assert len(made.cells) == 7


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


def test_random_things_count_their_seed_up_and_others_do_not():
    made = grid(block({"name": "range", "d": 4, "seed": 7}, "IP", targets="random", replicates=3))
    assert [cell.workload.params["seed"] for cell in made.cells] == [7, 8, 9]
    assert [cell.targets.params["seed"] for cell in made.cells] == [0, 1, 2]
    fixed = grid(prefix(4, "IP", replicates=3))
    assert len({workload_key(cell) for cell in fixed.cells}) == 1
    assert len({cell.id for cell in fixed.cells}) == 3


def test_an_experiments_time_limit_is_no_part_of_what_a_cell_is():
    asked = prefix(4, ["IP", "CA", {"name": "wCA-I", "time_limit": 3}])
    short, long = grid(asked, time_limit=60), grid(asked, time_limit=600)
    assert [cell.id for cell in short.cells] == [cell.id for cell in long.cells]
    limits = {c.mechanism.name: c.mechanism.params.get("time_limit") for c in short.cells}
    assert limits == {"IP": None, "CA": None, "wCA-I": 3.0}


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


def test_numbers_written_differently_are_one_identity():
    ones = 1, 1.0, 1.00000000000004
    uniform = "uniform", {"name": "uniform", "value": 1}, {"name": "uniform", "value": 1.0}
    plain = [
        prefix(4, {"name": "CA", "tol": one}, targets=targets)
        for one, targets in zip(ones, uniform, strict=True)
    ]
    by_group = [{"name": "by-group", "values": {"voting": one, "other": 10 * one}} for one in ones]
    for alike in (plain, [block("age", "IP", targets=targets) for targets in by_group]):
        assert len({grid(one).cells[0].id for one in alike}) == 1


WORKLOADS = st.sampled_from(
    [
        {"name": "prefix", "d": [2, 4, 8]},
        {"name": "range", "d": [2, 4], "m": 3},
        {"name": "identity-sum", "d": [4]},
    ]
)
MECHANISMS = st.lists(st.sampled_from(["IP", "GM", "CA", "wCA-I", "HM"]), min_size=1, unique=True)
TARGETS = st.lists(st.sampled_from(["uniform", "random"]), min_size=1, unique=True)
BLOCKS = st.lists(
    st.builds(block, WORKLOADS, MECHANISMS, targets=TARGETS, replicates=st.integers(2, 3)),
    min_size=1,
    max_size=3,
)


def identities(made):
    return {
        (of.group, *sorted((name, str(value)) for name, value in cell.coords.items())): cell.id
        for of in made
        for cell in of.cells
    }


@given(blocks=BLOCKS, seed=st.integers(0, 99))
def test_ids_depend_neither_on_order_nor_on_what_else_there_is(blocks, seed):
    whole = identities(grids(*blocks))
    shuffled = [dict(one) for one in blocks]
    shuffle = random.Random(seed).shuffle
    shuffle(shuffled)
    for one in shuffled:
        for key in ("mechanism", "targets"):
            one[key] = list(one[key])
            shuffle(one[key])
    assert identities(grids(*shuffled)) == whole
    for one in blocks:
        assert identities(grids(one)).items() <= whole.items()


@given(blocks=BLOCKS)
def test_one_solve_never_serves_two_problems(blocks):
    problems = {}
    for of in grids(*blocks):
        for cell in of.cells:
            assert problems.setdefault(solve_key(cell), problem_key(cell)) == problem_key(cell)


def test_simulations_are_part_of_the_identity_and_not_of_the_solve():
    plain, simulated = (grid(prefix(4, "IP"), simulate=n).cells[0] for n in (0, 100))
    assert plain.id != simulated.id
    assert solve_key(plain) == solve_key(simulated)


def test_ids_are_those_that_stores_of_this_format_hold():
    """Computed before the kind of a workload was part of its spec: stores must stay readable."""
    matrices, graphs = grids(
        prefix(4, ["IP", "GM"]),
        block({"name": "counting", "n": 3}, {"name": "geometric", "epsilon": 0.5}),
    )
    assert {cell.mechanism.name: cell.id for cell in (*matrices.cells, *graphs.cells)} == {
        "IP": "a65e50493be12246dca6",
        "GM": "e36e788b56f6840c5e4a",
        "geometric": "8d675967b3b13b31e59a",
    }
    assert [grid.cells[0].kind for grid in (matrices, graphs)] == ["matrix", "graph"]
