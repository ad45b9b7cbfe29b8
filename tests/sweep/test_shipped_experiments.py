"""The experiments that ship: each expands, and its published numbers find their cells."""

from functools import cache

import pytest

import solvers
from sweep.experiment import variables
from sweep.experiment.files import list_experiments
from sweep.experiment.loading import load_experiment
from sweep.grid.expansion import expand


@cache
def loaded(name):
    experiment = load_experiment(name)
    return experiment, {grid.group: grid for grid in expand(experiment)}


def labels(grid):
    along = {axis.name: axis.values for axis in grid.axes}
    return {**{name: (value,) for name, value in grid.scalars.items()}, **along}


@pytest.mark.parametrize("name", list_experiments())
def test_an_experiment_is_whole(name):
    """It expands, states its source, and all its comparisons can be found and judged."""
    experiment, grids = loaded(name)
    assert experiment.name == name
    assert experiment.title
    assert experiment.source
    assert experiment.figures or "-fig" not in name
    assert all(grid.cells for grid in grids.values())
    tables = (*experiment.published, *experiment.closed_form)
    compared = {one.variable for one in (*tables, *experiment.claims) if one.variable}
    assert compared <= variables.MEANINGS.keys()
    for table in tables:
        grid = grids[table.group or experiment.blocks[0].group]
        several = {axis for axis, known in labels(grid).items() if len(known) > 1}
        if experiment.scorecard:
            assert several <= {"replicate", *table.axes, *table.at}
        if table.variable == "variance_ratio" and table in experiment.published:
            for one in [grid] if table.group else grids.values():
                assert experiment.reference in labels(one)["mechanism"]
    for claim in experiment.claims:
        assert claim.source
        judged = claim.repeats_number or (claim.least, claim.most) != (None, None)
        assert judged or claim.unjudged


def test_no_mechanism_that_exists_is_left_out():
    for name in list_experiments():
        experiment, grids = loaded(name)
        for block in (one for one in experiment.blocks if one.where is None):
            for mechanism in block.mechanism:
                if mechanism.name in solvers.all_mechanisms():
                    assert mechanism.shown in labels(grids[block.group])["mechanism"]


def test_cells_counted_by_hand():
    counts = {
        "trivial": 10_000,
        "vldb-table2": 5 * 4,
        "vldb-table4": 11,
        # 8 mechanisms, 100 draws to 128 cells and 20 above; fewer draws of both SM-II
        "vldb-table5": (2 * 100 + 3 * 20) * 7 + (2 * 100 + 20) + 2 * 10 + (20 + 4 + 1 + 1),
        "vldb-fig3": 8 * 5,
        "vldb-table9": 2 * 11,
    }
    for name, count in counts.items():
        _, grids = loaded(name)
        assert sum(len(grid.cells) for grid in grids.values()) == count, name


def test_vldb_holds_every_row_of_the_tables_at_d_up_to_256():
    whole, _ = loaded("vldb")
    for number in (5, 6, 7, 8, 10, 11):
        alone, _ = loaded(f"vldb-table{number}")
        (there,) = [p for p in whole.published if p.title == f"Table {number}"]
        here = alone.published[0]
        kept = len(there.values)
        assert _flat(there.values) == _flat(here.values[:kept])
        assert _printed_columns(there) == _printed_columns(here)
        for axis in set(here.axes) - {"mechanism"}:
            limit = 6 if axis == "values" else 256
            assert there.axes[axis] == tuple(v for v in here.axes[axis] if v <= limit)


def _printed_columns(table):
    """The paper's columns: each table says which tree is its HM and which run its CA."""
    names = (label.partition(" ")[0] for label in table.axes["mechanism"])
    return list(dict.fromkeys("CA" if name == "COA" else name for name in names))


def test_the_tables_are_the_papers():
    """Sums of all printed numbers, added up by hand from the papers' text."""
    sums = {
        ("vldb-table2", "Table 2"): 2 * (1.33 + 1.76 + 2.28 + 2.91 + 4.46),
        ("vldb-table3", "Table 3"): (
            7.02 + 44.90 + 198.52 + 264.36 + 0.027 + 0.055 + 0.053 + 0.058
        ),
        ("vldb-table4", "Table 4"): 36.56 + 13.93 + 3 * 3.99 + 1,
        ("vldb-draws", "Table 9"): 32.49 + 6.2 + 3 * 1.58,
        ("arxiv-table4", "Table 4"): 42.41 + 8.91 + 4.64 + 1,
        ("arxiv-draws", "Table 9"): 22.02 + 18.55 + 5.30,
    }
    for (name, title), total in sums.items():
        experiment, _ = loaded(name)
        (table,) = [one for one in experiment.published if one.title == title]
        assert sum(_flat(table.values)) == pytest.approx(total), name


@pytest.mark.parametrize("number", [5, 6, 7, 8, 11])
def test_the_authors_draws_have_the_numbers_of_our_draws(number):
    """Both experiments print the paper's table; that of our draws also has SM-II's 1."""
    ours, theirs = (
        next(one for one in loaded(name)[0].published if one.title.startswith(f"Table {number}"))
        for name in (f"vldb-table{number}", "vldb-draws")
    )
    assert _flat([row[:-1] for row in ours.values]) == _flat(theirs.values)


def _flat(values):
    return [
        number
        for one in values
        for number in (_flat(one) if isinstance(one, list) else [one])
        if isinstance(number, int | float)
    ]


@pytest.mark.parametrize("name", list_experiments())
def test_its_quick_sizes_are_some_of_its_own(name):
    """There may be more seeds, because they cost little there."""
    whole, grids = loaded(name)
    seeds = [setting for setting in whole.quick if setting.startswith("replicates=")]
    of_all = expand(load_experiment(name, seeds)) if seeds else grids.values()
    if whole.quick:
        quick = expand(load_experiment(name, whole.quick))
        assert _ids(quick) < _ids(of_all)


def _ids(grids):
    return {cell.id for grid in grids for cell in grid.cells}
