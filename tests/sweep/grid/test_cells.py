"""Cells: identities that depend only on content, and solves that serve one problem."""

import random

from hypothesis import given
from hypothesis import strategies as st
from written import block, experiment, prefix, problem_key, solve_key, workload_key

from sweep.grid.expansion import expand


def grids(*blocks, **others):
    return expand(experiment(*blocks, **others))


def grid(*blocks, **others):
    (only,) = grids(*blocks, **others)
    return only


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
