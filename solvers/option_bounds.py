"""The bounds of the options that mean the same in every mechanism that has them."""

import math
from collections.abc import Callable, Mapping
from numbers import Integral
from typing import Any, NamedTuple

from solvers.errors import OptionError
from workloads.parameters import is_number


class _Bounds(NamedTuple):
    valid: Callable[[float], bool]
    expected: str
    whole: bool = False


_NOT_NEGATIVE = _Bounds(lambda x: 0 <= x < math.inf, "a number of at least 0")
_POSITIVE = _Bounds(lambda x: 0 < x < math.inf, "a positive finite number")
_SHARE = _Bounds(lambda x: 0 < x < 1, "a number between 0 and 1")
_COUNT = _Bounds(lambda x: x >= 0, "a whole number of at least 0", whole=True)

_BOUNDS: Mapping[str, _Bounds] = {
    "tol": _NOT_NEGATIVE,
    "tol2": _NOT_NEGATIVE,
    "total_error_weight": _NOT_NEGATIVE,
    "time_limit": _Bounds(lambda x: x >= 0, "a number of at least 0"),
    "epsilon": _POSITIVE,
    "theta": _POSITIVE,
    "nttol": _POSITIVE,
    "softmax_tol": _NOT_NEGATIVE,
    "first_t": _POSITIVE,
    "rank_ratio": _Bounds(lambda x: 1 <= x < math.inf, "a number of at least 1"),
    "sigma": _SHARE,
    "beta": _SHARE,
    "mu": _Bounds(lambda x: 1 < x < math.inf, "more than 1: the sharpness must grow"),
    "max_iterations": _COUNT,
    "seed": _COUNT,
    "max_cg": _Bounds(lambda x: x >= 1, "a whole number of at least 1", whole=True),
}


def check(mechanism: str, options: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Raise OptionError for options of a wrong kind or out of bounds.

    Parameters
    ----------
    options : Mapping[str, object]
        By name; those that have no bounds here are the mechanism's own to check.
    defaults : Mapping[str, object]
        Of all options: one may be None where that is its default.
    """
    for name, value in options.items():
        known = _BOUNDS.get(name)
        if known is None or (value is None and defaults[name] is None):
            continue
        right_kind = isinstance(value, Integral) if known.whole else is_number(value)
        if not (right_kind and known.valid(value)):
            raise OptionError(f"{mechanism}: {name} is {value!r}; expected {known.expected}")
