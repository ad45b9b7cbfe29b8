"""Every targets rule against its definition, and the errors of bad ones."""

import numpy as np
import pytest

from workloads import TargetsError, Workload, from_queries, make, targets
from workloads.operators import Explicit, Marginals


@pytest.fixture(scope="module")
def ranges():
    return make("range", d=500, seed=1)


def test_stated_targets_are_those_of_the_queries_themselves(ranges):
    asked = from_queries({"age": ["1", ""], "variance": ["2", "3"]}, {"age": "0..4"})
    np.testing.assert_array_equal(targets.make("stated", asked), [2.0, 3.0])
    with pytest.raises(TargetsError, match="has no stated targets; the rule is for 'csv'"):
        targets.make("stated", ranges)


def test_random_integer_covers_one_to_ten_evenly(ranges):
    values, counts = np.unique(targets.make("random-integer", ranges), return_counts=True)
    np.testing.assert_array_equal(values, np.arange(1, 11))
    assert np.all(np.abs(counts - 100) < 5 * np.sqrt(1000 * 0.1 * 0.9))


def test_random_by_group_is_constant_in_each_group_and_differs_between_them():
    workload = make("marginals", attributes=3, values=4, orders=[1, 2])
    made = targets.make("random-by-group", workload, low=2.0, high=3.0, seed=5)
    of_groups = targets.by_group(workload, made)
    assert made.shape == (workload.m,)
    assert np.unique(of_groups).size == len(workload.group_names)
    assert np.all((of_groups >= 2) & (of_groups <= 3))
    with pytest.raises(TargetsError, match="needs groups of queries, and workload 'prefix' has"):
        targets.make("random-by-group", make("prefix", d=4))


@pytest.mark.parametrize("rule", ["important", "important-integer"])
def test_important_queries_are_a_tenth(rule, ranges):
    made = targets.make(rule, ranges)
    assert np.count_nonzero((made >= 1) & (made <= 3)) == 100
    assert np.count_nonzero((made >= 10) & (made <= 15)) == 900
    assert np.any(np.diff(np.flatnonzero(made <= 3)) > 1)
    whole, counts = np.unique(made, return_counts=True)
    if rule == "important-integer":
        assert whole.tolist() == [1, 2, 3, 10, 11, 12, 13, 14, 15]
        assert counts[:3].min() > 20  # 33 expected
        assert counts[3:].min() > 110  # 150 expected
    else:
        assert len(whole) == 1000


def test_targets_from_a_file(tmp_path, ranges):
    path = str(tmp_path / "c.npy")
    np.save(path, np.arange(1, 1001))
    np.testing.assert_array_equal(targets.make("file", ranges, path=path), np.arange(1.0, 1001.0))
    for content, sentence in (
        (np.ones(5), r"has shape \(5,\); .* shape \(1000,\)"),
        (np.full(1000, np.nan), "target nan to query 0"),
        (np.array(["x"] * 1000), "is not an array of real numbers"),
    ):
        np.save(path, content)
        with pytest.raises(TargetsError, match=sentence):
            targets.make("file", ranges, path=path)


def test_a_workload_too_large_to_list_gets_one_target_for_each_group():
    workload = make("marginals", attributes=100, values=10, orders=[3])
    assert isinstance(workload.operator, Marginals)
    made = targets.make("sequential", workload)
    np.testing.assert_array_equal(made, np.arange(1, 161_701))
    assert targets.make("uniform", workload).shape == (161_700,)
    assert targets.by_group(workload, made) is made


@pytest.mark.parametrize(
    ("rule", "params", "sentence"),
    [
        ("unifrom", {}, "no targets rule is called 'unifrom'; did you mean 'uniform'"),
        ("uniform", {"valu": 2}, "does not take 'valu'; did you mean 'value'"),
        ("uniform", {"value": "x"}, "value is 'x'; expected a number"),
        ("uniform", {"value": 0}, "target 0.0 to query 0 .*must be positive and finite"),
        ("random-integer", {"low": 0}, "expected 0 < low <= high"),
        (
            "random-integer",
            {"high": 10**19},
            "at most 9,007,199,254,740,992",
        ),
        ("uniform", {"value": 10**400}, "expected a number"),
        ("random", {"seed": -1}, r"seed is -1; expected a whole number \(at least 0\)"),
        ("important", {"fraction": 1.5}, r"fraction is 1.5; .*at most 1\)"),
        ("by-group", {}, "needs parameter 'values'"),
        ("by-group", {"values": {"votin": 1, "other": 1}}, "'votin'; did you mean 'voting'"),
        ("by-group", {"values": [1, 2, 3]}, "3 targets for the 2 groups"),
        ("total", {"k": 2}, "has no group 'total'; this rule is for 'identity-sum'"),
    ],
)
def test_bad_rules_are_refused(rule, params, sentence):
    with pytest.raises(TargetsError, match=sentence) as caught:
        targets.make(rule, make("age"), **params)
    assert "\n" not in str(caught.value)


def test_targets_of_groups_that_alternate():
    of = {"groups": np.array([0, 1, 0, 1]), "group_names": ("old", "new"), "group_sizes": (2, 2)}
    asked = Workload("mine", Explicit(np.eye(4)), **of)
    np.testing.assert_array_equal(targets.by_group(asked, np.array([1.0, 2.0, 1.0, 2.0])), [1, 2])
    with pytest.raises(TargetsError, match=r"group 'new' .* has targets from 2 to 5"):
        targets.by_group(asked, np.array([1.0, 2.0, 1.0, 5.0]))


def test_random_is_uniform_and_real(ranges):
    np.testing.assert_array_equal(targets.make("uniform", ranges, value=2.5), np.full(1000, 2.5))
    made = targets.make("random", ranges, low=2.0, high=4.0)
    assert 2.0 <= made.min() < 2.1
    assert 3.9 < made.max() <= 4.0
    assert abs(made.mean() - 3.0) < 5 * (2.0 / np.sqrt(12)) / np.sqrt(1000)
    assert len(np.unique(made)) == 1000
