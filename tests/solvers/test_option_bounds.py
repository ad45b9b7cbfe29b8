"""Options that mean the same in every mechanism have the same bounds everywhere."""

import math
import re
from typing import Annotated, Literal

import annotated_types
import numpy as np
import pytest

import solvers

OPTIONS = [
    (name, option)
    for name, mechanism in solvers.all_mechanisms().items()
    if "matrix" in mechanism.workload_kinds
    for option in mechanism.params("matrix")
    if (name, option) != ("ESM", "tol")  # which must be positive
]
LEAST = {  # what is taken at the least; what is refused next to it
    **dict.fromkeys(("tol", "tol2", "softmax_tol"), (0.0, -1e-9)),
    **dict.fromkeys(("total_error_weight", "time_limit"), (0.0, -1e-9)),
    **dict.fromkeys(("theta", "nttol", "first_t", "sigma", "beta"), (1e-300, 0.0)),
    **dict.fromkeys(("max_iterations", "seed"), (0, -1)),
    "mu": (1 + 1e-9, 1.0),
    "max_cg": (1, 0),
    "rank_ratio": (1.0, 1 - 1e-9),
}
MOST = {"sigma": (1 - 1e-9, 1.0), "beta": (1 - 1e-9, 1.0), "time_limit": (math.inf, math.nan)}
FINITE = (1e300, math.inf)


def resolved(mechanism, option, value):
    made = solvers.all_mechanisms()[mechanism].make(None, {option: value}, "matrix")
    return made.options[option]


@pytest.mark.parametrize(("mechanism", "option"), [o for o in OPTIONS if o[1] in LEAST])
def test_the_ends_are_taken_and_what_lies_beyond_is_refused(mechanism, option):
    whole = isinstance(LEAST[option][0], int)
    ends = [LEAST[option], (10**9, 0.5) if whole else MOST.get(option, FINITE)]
    for taken, beyond in ends:
        assert resolved(mechanism, option, taken) == taken
        with pytest.raises(
            solvers.OptionError, match=f"{re.escape(repr(mechanism))}: {option} is .*expected"
        ):
            resolved(mechanism, option, beyond)
    huge = [] if whole else [10**400]
    for wrong in (math.nan, "1", [1.0], np.ones(2), *huge):
        with pytest.raises(solvers.OptionError, match=f"{re.escape(repr(mechanism))}: {option} is"):
            resolved(mechanism, option, wrong)


def test_a_tree_has_no_more_children_than_cells():
    flat = solvers.solve("HM", np.tri(5), branching=10**30)
    assert flat.notes["branching"] == 5
    assert solvers.solve("HM", np.tri(5), branching=np.int64(2)).notes["branching"] == 2


@pytest.mark.parametrize("wrong", ["2", 3, True, None, np.ones(2)])
def test_an_option_with_choices_takes_no_other_value(wrong):
    def rounded(problem, *, digits: Literal[1, 2] = 1):
        """Never called."""

    with solvers.mechanism.added({"rounded": rounded}):
        assert resolved("rounded", "digits", 2) == 2
        with pytest.raises(solvers.OptionError, match=r"'rounded': digits is .*expected 1 or 2"):
            resolved("rounded", "digits", wrong)


def test_a_function_of_your_own_is_bounded_by_its_own_annotations_alone():
    def free(problem, *, beta=2.0, mu=0.5, epsilon=0.0, theta="x", seed=0.5, tol: float = -1.0):
        """Options whose names other mechanisms give bounds."""
        return np.eye(problem.workload.d)

    def bounded(problem, *, weight: Annotated[float, annotated_types.Interval(ge=1, lt=2)] = 1.0):
        """An option with bounds of its own."""
        return weight * np.eye(problem.workload.d)

    with solvers.mechanism.added({"free": free, "bounded": bounded}):
        assert solvers.solve("free", np.tri(3)).squared_privacy_cost == pytest.approx(3.0)
        changed = solvers.solve("free", np.tri(3), beta=-1.0, mu="y", tol=-2.0)
        assert changed.squared_privacy_cost == pytest.approx(3.0)
        with pytest.raises(solvers.OptionError, match=r"'free': tol is 'x'; expected a number$"):
            solvers.solve("free", np.tri(3), tol="x")
        assert solvers.solve("bounded", np.tri(3), weight=1).converged
        with pytest.raises(solvers.OptionError, match=r"number \(at least 1 and below 2\)$"):
            solvers.solve("bounded", np.tri(3), weight=2)


@pytest.mark.parametrize(
    ("mechanism", "options", "sentence"),
    [
        ("COA", {"cg_steps": 1.5}, r"cg_steps is 1.5; expected a whole number \(at least 1\)"),
        ("COA", {"cg_steps": -3}, "cg_steps is -3"),
        ("COA", {"homotopy": "no"}, "homotopy is 'no'; expected true or false"),
        ("DAWA", {"data_seed": "x"}, "data_seed is 'x'; expected a whole number"),
        ("DAWA", {"draws": 10**400}, r"draws is about 10\^400.*that SWEEP_LARGEST_SIZE"),
        ("SM-II", {"initial": "x"}, "initial is not a matrix of numbers"),
        ("SM-II", {"t2_rule": 2}, "t2_rule is 2; expected paper or code"),
    ],
)
def test_options_from_python_are_checked_as_those_of_a_file(mechanism, options, sentence):
    with pytest.raises(solvers.OptionError, match=sentence):
        solvers.solve(mechanism, np.tri(4), **options)
