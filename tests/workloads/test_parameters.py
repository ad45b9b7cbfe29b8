"""Types and bounds of parameters: what fits them, and how messages describe them."""

import math
from typing import Annotated, Literal

import annotated_types
import numpy as np
import pytest

from workloads import parameters
from workloads.errors import ParameterError, TargetsError, WorkloadError, blaming
from workloads.parameters import LARGEST_SIZE, Bounds, NotNegative, Positive, Share, Size

MATRIX = list[list[float]]
CHOICE = Literal["one", 2]


@pytest.mark.parametrize(
    ("expected", "fitting", "others"),
    [
        (int, [0, -3, np.int64(2)], [True, 1.0, "1", None]),
        (float, [0, 1.5, np.float32(2)], [False, 10**400, "1", [1.0]]),
        (bool, [True, False], [0, 1, "true"]),
        (str, ["", "x"], [1, None]),
        (NotNegative, [0, 1e300], [-1e-9, math.inf, math.nan, True]),
        (Positive, [5e-324, 1], [0.0, math.inf]),
        (Share, [1e-9, 0.999], [0, 1]),
        (Size, [1, LARGEST_SIZE], [0, LARGEST_SIZE + 1, 2.0]),
        (Size | None, [1, None], [0, "1"]),
        (Annotated[float, annotated_types.Interval(gt=1, le=2)], [1.5, 2], [1, 2.5]),
        (Annotated[int, "a note of its author", annotated_types.Ge(3)], [3], [2]),
        (CHOICE, ["one", 2], ["two", 2.0, "2"]),
        (MATRIX, [[[1, 2.5]], [], np.eye(2), ([1],)], [[1], [["1"]], "1", np.array(1.0)]),
        (dict[str, int], [{}, {"a": 1}], [{"a": 1.5}, [1]]),
        (complex, [1, "anything"], []),
    ],
)
def test_what_fits_a_type(expected, fitting, others):
    for value in fitting:
        assert parameters.fits(value, expected), value
    for value in others:
        assert not parameters.fits(value, expected), value


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        (int, "a whole number"),
        (Share, "a number (above 0 and below 1)"),
        (NotNegative, "a number (at least 0 and finite)"),
        (Size, f"a whole number (at least 1 and at most {LARGEST_SIZE:,})"),
        (Positive | None, "a number (above 0 and finite) or nothing (null)"),
        (CHOICE, "one or 2"),
        (MATRIX, "a list of lists of numbers"),
        (list[str | Positive], "a list of texts or numbers (above 0 and finite)"),
        (dict[str, float], "a mapping of names to numbers"),
        (complex, "any value"),
    ],
)
def test_a_type_in_words(expected, words):
    assert parameters.describe(expected) == words


def test_the_alternatives_of_a_type_have_no_bounds():
    assert parameters.alternatives(Annotated[float, Bounds(gt=0)] | None) == (float, type(None))
    assert parameters.alternatives(MATRIX) == (MATRIX,)


def test_values_are_bound_to_defaults_or_refused_with_their_parameter():
    def family(d: Size, weight: Positive = None, kind: CHOICE = "one"):
        """A default need not fit its type."""

    known = parameters.Recipe("family", family).params
    assert parameters.bind("it", known, {"d": 3}) == {"d": 3, "weight": None, "kind": "one"}
    assert parameters.bind("it", known, {"d": 3, "weight": None})["weight"] is None
    wrong = [
        ({}, "d", r"it needs parameter 'd' \(a whole number"),
        ({"d": 0}, "d", r"it: d is 0; expected a whole number \(at least 1"),
        ({"d": 1, "weight": 0}, "weight", r"it: weight is 0; expected a number \(above 0"),
        ({"d": 1, "kinds": 2}, "kinds", "it does not take 'kinds'; did you mean 'kind'"),
        ({"d": 10**40}, "d", r"d is about 10\^40; .* that SWEEP_LARGEST_SIZE in the environment"),
    ]
    for given, blamed, sentence in wrong:
        for error in (WorkloadError, TargetsError):
            with pytest.raises(error, match=sentence) as caught:
                parameters.bind("it", known, given, error)
            assert caught.value.parameter == blamed


def test_an_error_keeps_the_first_parameter_that_is_blamed():
    with pytest.raises(ParameterError) as outer, blaming("outer"), blaming("inner"):
        raise WorkloadError("no parameter is to blame here")
    assert outer.value.parameter == "inner"
    with pytest.raises(ParameterError) as own, blaming("outer"):
        raise WorkloadError("this one is", "own")
    assert own.value.parameter == "own"
