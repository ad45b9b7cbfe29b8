"""What no mechanism takes, and the sentence that says so."""

import numpy as np
import pytest

import solvers
import workloads

graph = workloads.make
PREFIX = workloads.make("prefix", d=4)


def huge(**params):
    return workloads.make("marginals", **{"attributes": 30, "values": 10, "orders": [2], **params})


def census(age=6, sex=2, **ordered):
    tables = [["age"], ["age", "sex"]]
    return workloads.make("census", attributes={"age": age, "sex": sex}, tables=tables, **ordered)


MASKED = np.ma.masked_array(np.ones(4), [0, 1, 0, 0])
SELF_OR_NONE = {"pairs": [[1, 1]]}, {"pairs": []}
TWO_MATRICES = [["prefix:4", "total:3"], ["identity:4", "identity:3"]]
OVERLAPPING = np.array([[1.0, 0, 0], [0, 1, 0], [1, 1, 0]])


@pytest.mark.parametrize(
    ("mechanism", "workload", "options", "sentence"),
    [
        ("DAWA", PREFIX, {"data": "serch-log"}, "did you mean 'search-log'"),
        ("DAWA", PREFIX, {"share": 1.0}, "above 0 and below 1"),
        ("DAWA", PREFIX, {"draws": 1}, "at least 2"),
        ("ESM", PREFIX, {"tol": 0}, "tol is 0"),
        ("GD", PREFIX, {"basis": "fourier"}, "there is no basis 'fourier'"),
        *(
            (
                "HM",
                PREFIX,
                {"branching": branching},
                "expected a whole number .at least 2. or qardaji",
            )
            for branching in (1, True, "binary", 2.5)
        ),
        ("ResidualPlanner", census(), {"objective": "least"}, "total-variance or max-variance"),
        *(
            ("IP", PREFIX, {"neighbours": written}, "expected 'add-remove', 'replace-one'")
            for written in (3, {"by": 2}, {"within": 0}, {"within": []}, *SELF_OR_NONE)
        ),
        *(
            ("IP", PREFIX, {"neighbours": written}, "on 4 cells")
            for written in ({"within": 3}, {"within": [1, 2]}, {"pairs": [[0, 4]]})
        ),
        ("SM-II", PREFIX, {"basis": "fourier"}, "basis is 'fourier'"),
        ("SM-II", PREFIX, {"initial": np.eye(3)}, r"shape \(3, 3\)"),
        ("SM-II", PREFIX, {"initial": np.eye(4)[:3]}, "initial does not determine the workload"),
        ("SM-II", PREFIX, {"initial": np.eye(4)[:3], "basis": "identity"}, "does not determine"),
        ("fisher-bounded", PREFIX, {"slope": 1.0}, "set on: data"),
        ("geometric", graph("k-count", u=2), {"spend": 1.0}, "spends 2 times epsilon"),
        ("geometric", graph("k-count", u=2), {"spend": [0.1] * 3}, "the 2 coordinates"),
        ("geometric", graph("counting", n=5), {"epsilon": 0.0}, "epsilon is 0"),
        ("geometric", graph("counting", n=5), {"tol": 1e-3}, "does not take 'tol'"),
        ("optimal", PREFIX, {"refined": True, "total_error_weight": 1.0}, "leave one of the two"),
        ("optimal", PREFIX, {"profile_bounds": [1.0, 2.0]}, "expected 4 positive numbers"),
        ("optimal", PREFIX, {"profile_bounds": [1.0, 0.0, 1.0, 1.0]}, "positive"),
        ("optimal", PREFIX, {"profile_bounds": [1e-200, 1, 1, 1]}, "from 1e-200 to"),
        ("optimal", PREFIX, {"profile_bounds": MASKED}, "none masked"),
        ("optimal", PREFIX, {"profile_bounds": [1, 1, 1, 10**400]}, "not real numbers"),
        ("optimal", PREFIX, {"start": "optimal"}, "Solution.weights"),
        ("tight-constraints", PREFIX, {"measure": "bias"}, "measure is 'bias'"),
        *(
            ("tight-constraints", PREFIX, {"n": n}, "expected .* whole number")
            for n in (0, 2.5, 10**400)
        ),
    ],
)
def test_options(mechanism, workload, options, sentence):
    with pytest.raises(solvers.OptionError, match=sentence) as caught:
        solvers.solve(mechanism, workload, **options)
    assert caught.value.parameter in options


@pytest.mark.parametrize(
    ("mechanism", "workload", "options", "sentence"),
    [
        *(
            (name, census(4000, 99, prefixes=["age"]), {}, "GiB.*no form on orbits")
            for name in ("AM", "LRM", "COA", "GD")
        ),
        ("CA", graph("counting", n=3), {}, "'CA' does not apply to a query graph; .*lp-optimal"),
        ("lp-optimal", np.eye(3), {}, "'lp-optimal' does not apply to a query matrix"),
        ("HM", huge(), {}, "too large for query matrices, and it needs an ordered attribute, and"),
        ("ResidualPlanner", census(prefixes=["age"]), {}, "use ResidualPlanner.$"),
        ("ResidualPlanner+", graph("kronecker", terms=TWO_MATRICES), {}, "for attribute 0"),
        ("SM-II", huge(), {"preset": "published"}, "option 'basis' needs the query matrix"),
        ("fisher-bounded", OVERLAPPING, {}, "not orthogonal.*on: data"),
        ("fisher-bounded", np.diag([1e-8, 1, 1e-8]) @ OVERLAPPING, {}, "not orthogonal"),
        ("geometric", np.tri(5) / 2, {}, r"entry of 0\.5.*'laplace'"),
        ("geometric", graph("cycle", n=5), {}, "the answers of workload 'cycle' are no"),
        ("interior-point", graph("prefix", d=256), {}, r"rank 256 needs 8\.3 GiB .* 'optimal'"),
        (
            "optimal",
            huge(subsets=[list(range(30)), *([i] for i in range(30))]),
            {},
            "subsets of attributes, more than the limit",
        ),
        (
            "optimal",
            np.eye(150),
            {"neighbours": "replace-one", "profile_bounds": [1] * 150},
            "profile_bounds.*too many pairs",
        ),
        ("tight-constraints", [[1.0, 1.0], [1.0, -1.0]], {}, "query 1 .* one other value"),
    ],
)
def test_workloads(mechanism, workload, options, sentence):
    with pytest.raises(solvers.NotApplicableError, match=sentence):
        solvers.solve(mechanism, workload, **options)
