"""The values of a parameter as written, and their labels."""

import inspect
from collections.abc import Mapping
from typing import Any, cast

from sweep.experiment.canonical import Scalar
from workloads import WorkloadError
from workloads.parameters import bind


def values_of(parameter: inspect.Parameter | None, value: Any) -> tuple[list[Any], bool]:
    """The values of a parameter, and whether they form an axis."""
    if isinstance(value, Mapping) and value.keys() == {"axis"} and isinstance(value["axis"], list):
        return value["axis"], True
    takes_it = parameter is None or _fits(parameter, value)
    return (value, True) if isinstance(value, list) and not takes_it else ([value], False)


def _fits(parameter: inspect.Parameter, value: Any) -> bool:
    try:
        bind("", {parameter.name: parameter}, {parameter.name: value}, WorkloadError)
    except WorkloadError:
        return False
    return True


def label(value: Any) -> Scalar:
    """The label of a value: itself, or a short text for a list, a mapping or None."""
    if isinstance(value, Mapping):
        return ",".join(f"{name}={label(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        nested = any(isinstance(item, list | tuple) for item in value)
        return (";" if nested else ",").join(str(label(item)) for item in value)
    return "none" if value is None else cast(Scalar, value)
