"""Neighbours in experiments: an axis, an identity, and a word beside every number."""

import re

import numpy as np
import pytest
import written
from written import block, prefix

import sweep
from sweep.errors import ExperimentError
from sweep.grid.expansion import expand

ALL = ["GM", "laplace", "optimal"]
COUNTING = {"name": "counting", "n": 3}


def experiment(*blocks):
    return written.experiment(*blocks, reference="GM", delta=1e-6, epsilon=[1.0])


def related(neighbours, mechanism=ALL):
    return experiment(prefix(8, mechanism, neighbours=neighbours))


def ids(asked):
    (grid,) = expand(asked)
    return [cell.id for cell in grid.cells]


def test_add_remove_leaves_identities_as_they_were():
    assert ids(related("add-remove")) == ids(experiment(prefix(8, ALL)))
    found = {tuple(ids(related(one))) for one in ("add-remove", "replace-one", {"within": 4})}
    assert len(found) == 3


def test_an_axis_of_relations(client, tmp_path):
    several = related(["add-remove", "replace-one", {"within": 4}])
    data = sweep.run(several, tmp_path, client=client)
    titles = ["add-remove", "replace-one", "replace-one within blocks of 4"]
    assert data.neighbours.values.tolist() == titles
    assert data.attrs["neighbours"] == "; ".join(titles)
    assert (data.status == 2).all()
    best = data.squared_privacy_cost.sel(mechanism="optimal").values
    np.testing.assert_allclose(best, [2.281561, 2.514666, 5 / 3], rtol=1e-3)
    assert (data.gap.sel(mechanism="optimal") <= 1e-6).all()
    gm = data.sel(mechanism="GM")
    np.testing.assert_allclose(gm.squared_privacy_cost, [8, 7, 3])
    np.testing.assert_allclose(gm.squared_privacy_cost / gm.lower_bound - 1, gm.gap)
    sensitivities = np.sqrt(2) * np.array([8, 7, 3])
    laplace = data.sel(mechanism="laplace")
    np.testing.assert_allclose(laplace.pure_epsilon, sensitivities)
    np.testing.assert_allclose(
        laplace.variance_ratio_at_pure_budget.values[:, 0], np.square(sensitivities)
    )
    assert (laplace.variance_ratio_at_budget.values[:, 0, 0] < np.square(sensitivities)).all()


def test_a_problem_without_a_certifying_mechanism_gets_its_bound(client, tmp_path):
    data = sweep.run(related("replace-one", ["GM", "SM-II"]), tmp_path, client=client)
    np.testing.assert_allclose(data.lower_bound, 2.514666, rtol=2e-4)
    assert data.neighbours.item() == "replace-one"


def test_plan_and_tables_say_the_relation(command, on_the_test_cluster, tmp_path):
    file = tmp_path / "small.yaml"
    file.write_text(related("replace-one").text)
    assert re.search(r"neighbours +replace-one", command("plan", file).output)
    ran = command("run", file, "--store", tmp_path / "store")
    assert "Neighbours: replace-one" in ran.output
    assert "Neighbours: replace-one" in command("show", tmp_path / "store").output
    known = tmp_path / "known.yaml"
    known.write_text(experiment(prefix(8, ALL)).text)
    assert "add-remove" in command("plan", known).output
    assert "replace-one" in command("plan", known, "--set", "neighbours=replace-one").output


def test_a_query_graph_has_its_own():
    with pytest.raises(ExperimentError, match="own edges say which answers are adjacent"):
        expand(experiment(block(COUNTING, "geometric", neighbours="replace-one")))
    (grid,) = expand(written.experiment(block(COUNTING, "geometric"), reference="geometric"))
    assert grid.relations == "adjacent answers of the query graph"


def test_blocks_of_one_group_may_differ_in_it():
    (grid,) = expand(experiment(prefix(8, ALL, neighbours="replace-one"), prefix(8, ALL)))
    (axis,) = (axis for axis in grid.axes if axis.name == "neighbours")
    assert axis.values == ("replace-one", "add-remove")
