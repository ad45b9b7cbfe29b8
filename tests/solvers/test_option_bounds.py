"""Options that mean the same in every mechanism have the same bounds everywhere."""

import math
import re
from typing import Literal

import numpy as np
import pytest

import solvers

OPTIONS = [
    (name, option)
    for name, mechanism in solvers.all_mechanisms().items()
    if "matrix" in mechanism.workload_kinds
    for option in mechanism.options_on["matrix"]
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
    return solvers.all_mechanisms()[mechanism].resolve(None, {option: value}, "matrix")[option]


@pytest.mark.parametrize(("mechanism", "option"), [o for o in OPTIONS if o[1] in LEAST])
def test_the_ends_are_taken_and_what_lies_beyond_is_refused(mechanism, option):
    whole = isinstance(LEAST[option][0], int)
    ends = [LEAST[option], (10**9, 0.5) if whole else MOST.get(option, FINITE)]
    for taken, beyond in ends:
        assert resolved(mechanism, option, taken) == taken
        with pytest.raises(
            solvers.OptionError, match=f"{re.escape(mechanism)}: {option} is .*expected"
        ):
            resolved(mechanism, option, beyond)
    huge = [] if whole else [10**400]
    for wrong in (math.nan, "1", [1.0], np.ones(2), *huge):
        with pytest.raises(solvers.OptionError, match=f"{re.escape(mechanism)}: {option} is"):
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
        with pytest.raises(solvers.OptionError, match=r"rounded: digits is .*expected one of 1, 2"):
            resolved("rounded", "digits", wrong)
