"""Mechanisms and their options: typed, bounded, and the same by name and as an object."""

import inspect
import math
import re
from dataclasses import dataclass
from typing import Annotated, Literal

import annotated_types
import numpy as np
import pytest

import solvers
import workloads
from solvers.mechanisms.geometric import Geometric
from solvers.mechanisms.hm import HM
from workloads import parameters

PREFIX = workloads.make("prefix", d=6)
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
        ("SM-II", {"initial": "x"}, "initial is not a matrix of real numbers"),
        ("SM-II", {"initial": np.eye(4) * 1j}, "real numbers: some are complex"),
        ("optimal", {"profile_bounds": np.ones(4) + 1j}, "real numbers: some are complex"),
        ("SM-II", {"t2_rule": 2}, "t2_rule is 2; expected paper or code"),
    ],
)
def test_options_from_python_are_checked_as_those_of_a_file(mechanism, options, sentence):
    with pytest.raises(solvers.OptionError, match=sentence):
        solvers.solve(mechanism, np.tri(4), **options)


def test_an_object_carries_its_options():
    named = solvers.solve("HM", np.tri(8), branching=4)
    made = solvers.solve(HM(branching=4), np.tri(8))
    assert made.notes == named.notes == {"branching": 4, "rule": "given"}
    assert made.squared_privacy_cost == named.squared_privacy_cost
    assert repr(HM(branching=4)) == "HM(branching=4)"
    for wrong in ({"branching": 3}, {"preset": "published"}):
        with pytest.raises(solvers.OptionError, match="'HM' has its options already; give it"):
            solvers.solve(HM(), np.tri(8), **wrong)
    with pytest.raises(solvers.OptionError, match="'HM': branching is 1; expected a whole number"):
        HM(branching=1)
    with pytest.raises(solvers.NotApplicableError, match="does not apply to a query graph"):
        solvers.solve(HM(), workloads.make("counting", n=3))
    assert solvers.expected_work(HM(), PREFIX) == solvers.expected_work("HM", PREFIX)


def test_an_option_of_query_matrices_is_refused_on_a_query_graph():
    answers = workloads.make("counting", n=4)
    assert solvers.solve(Geometric(epsilon=2.0), answers).noise.epsilon == 2.0
    with pytest.raises(solvers.OptionError, match="'geometric' does not take 'on'"):
        solvers.solve(Geometric(on="data"), answers)


@dataclass(frozen=True)
class Scaled(solvers.Mechanism):
    """Equal noise on every cell, with a promise that is not kept."""

    self_certifying = True
    weight: Annotated[float, annotated_types.Gt(0)] = 1.0

    def on_matrix(self, problem):
        return self.weight * np.eye(problem.workload.d)

    def on_orbits(self, orbits):
        raise AssertionError


MARGINALS = workloads.make("marginals", attributes=2, values=3)


@pytest.mark.parametrize("workload", [PREFIX, MARGINALS])
def test_a_class_of_your_own_is_verified_on_the_query_matrix_alone(workload):
    found = solvers.solve(Scaled(weight=3.0), workload)
    cells = solvers.solve("IP", workload).squared_privacy_cost
    assert found.squared_privacy_cost == pytest.approx(cells)
    with solvers.mechanism.added({"scaled": Scaled}):
        known = solvers.all_mechanisms()["scaled"]
        assert (known.name, known.summary, known.foreign) == ("scaled", Scaled.summary, True)
        assert not known().certifies
        named = solvers.solve("scaled", workload, weight=2.0)
        assert named.squared_privacy_cost == pytest.approx(cells)
        with pytest.raises(solvers.OptionError, match=r"'scaled': weight is 0; .*\(above 0\)"):
            solvers.solve("scaled", workload, weight=0)


def test_a_class_without_answers_on_query_matrices_is_refused():
    @dataclass(frozen=True)
    class OnGraphs(solvers.Mechanism):
        """On query graphs alone."""

        def on_graph(self, problem):
            raise AssertionError

    with (
        pytest.raises(solvers.OptionError, match="has no on_matrix"),
        solvers.mechanism.added({"graphs": OnGraphs}),
    ):
        raise AssertionError


def test_a_function_may_name_its_options_as_it_likes():
    def named(problem, *, name="n", work=2.0, source="s", options=(1,), revision=0):
        """Options that are attributes of a mechanism, too."""
        assert (name, source, options, revision) == ("n", "s", (1,), 7)
        return work * np.eye(problem.workload.d)

    with solvers.mechanism.added({"mine": named}):
        found = solvers.solve("mine", np.tri(3), revision=7)
        assert found.mechanism == "mine"
        assert found.squared_privacy_cost == pytest.approx(3.0)


def test_annotations_may_be_texts():
    names = {"np": np}
    exec(
        "from __future__ import annotations\n"
        "def mine(problem, *, weight: float = 1.0, other: Unknown = None):\n"
        "    return np.eye(problem.workload.d)\n"
        "def sound(problem, *, weight: float = 1.0):\n"
        "    return np.eye(problem.workload.d)\n",
        names,
    )
    with solvers.mechanism.added({"mine": names["mine"], "sound": names["sound"]}):
        assert solvers.solve("mine", np.tri(3), other=2).converged
        with pytest.raises(solvers.OptionError, match="weight is 'x'; expected a number"):
            solvers.solve("sound", np.tri(3), weight="x")


@pytest.mark.parametrize("name", sorted(solvers.all_mechanisms()))
def test_every_default_fits_its_type_and_has_its_documentation(name):
    known = solvers.all_mechanisms()[name]
    for option, parameter in known.params().items():
        fits = parameters.fits(parameter.default, parameter.annotation)
        assert fits, (option, parameter)
    documented = "\n".join(inspect.getdoc(one) or "" for one in known.__mro__)
    sections = re.findall(r"^(\w+(?:, \w+)*) :", documented, flags=re.M)
    assert known.params().keys() <= {one for names in sections for one in names.split(", ")}
