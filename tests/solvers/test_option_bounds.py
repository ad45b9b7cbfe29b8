"""Options that mean the same in every mechanism have the same bounds everywhere."""

import math

import numpy as np
import pytest

import solvers

OPTIONS = [
    (name, option)
    for name, mechanism in solvers.all_mechanisms().items()
    if "matrix" in mechanism.asks
    for option in mechanism.options_on("matrix")
]
LEAST = {  # what is taken at the least; what is refused next to it
    "tol": (0.0, -1e-9),
    "tol2": (0.0, -1e-9),
    "softmax_tol": (0.0, -1e-9),
    "total_error_weight": (0.0, -1e-9),
    "time_limit": (0.0, -1e-9),
    "theta": (1e-300, 0.0),
    "nttol": (1e-300, 0.0),
    "first_t": (1e-300, 0.0),
    "sigma": (1e-300, 0.0),
    "beta": (1e-300, 0.0),
    "mu": (1 + 1e-9, 1.0),
    "max_iterations": (0, -1),
    "seed": (0, -1),
    "max_cg": (1, 0),
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
        with pytest.raises(solvers.OptionError, match=f"{mechanism}: {option} is .*expected"):
            resolved(mechanism, option, beyond)
    for wrong in (math.nan, "1", [1.0], np.ones(2)):
        with pytest.raises(solvers.OptionError, match=f"{mechanism}: {option} is"):
            resolved(mechanism, option, wrong)
