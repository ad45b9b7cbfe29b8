"""The canonical form of values, on which identities, hashes and coordinates depend."""

import hashlib
import inspect
import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal, cast

from pydantic import StrictStr
from pydantic.dataclasses import dataclass

from workloads.parameters import fits

Scalar = str | int | float | bool
"""The label of a point along a coordinate."""


@dataclass(frozen=True)
class Spec:
    """A workload, a targets rule or a mechanism: its name and its parameters.

    In an experiment, ``params`` has the written parameters, each with one or several values. In a
    cell, ``params`` has one value, in canonical form, for every parameter of the function.

    Attributes
    ----------
    params : Mapping[str, object]
        The parameters of the workload or the rule, or the options of the mechanism.
    label : str, optional
        The label on the ``targets`` or ``mechanism`` axis; not part of the identity.
    preset : str, optional
        Only in an experiment: a named set of the mechanism's options.
    when : {"available"}, optional
        Only in an experiment: leave the mechanism out, instead of failing, if it (or its preset)
        does not exist.
    """

    name: StrictStr
    params: Mapping[str, Any] = field(default_factory=dict)
    label: StrictStr | None = field(default=None, compare=False)
    preset: StrictStr | None = None
    when: Literal["available"] | None = None

    @property
    def shown(self) -> str:
        """The label; if there is none, the name, followed by the preset in parentheses."""
        return self.label or (f"{self.name} ({self.preset})" if self.preset else self.name)


def canonical(content: Any) -> str:
    """``content`` as canonical JSON.

    Raises
    ------
    ValueError
        If ``content`` contains NaN or an infinite number.
    TypeError
        If ``content`` contains a value that JSON cannot represent.
    """
    return json.dumps(
        content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def digest(text: str) -> str:
    """The first 20 hexadecimal digits of the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def rounded(value: float) -> float:
    """The value, rounded to 12 significant digits; identities and coordinates use such values."""
    return float(f"{value:.12g}")


def values_of(parameter: inspect.Parameter | None, value: Any) -> tuple[list[Any], bool]:
    """The values that ``value`` lists for a parameter, and whether they form an axis.

    A list is one value if the parameter's type is a list.
    """
    if isinstance(value, Mapping) and value.keys() == {"axis"} and isinstance(value["axis"], list):
        return value["axis"], True
    if isinstance(value, list) and parameter and not fits(value, parameter.annotation):
        return value, True
    return [value], False


def label(value: Any) -> Scalar:
    """The label of a value: the value itself, or a short text for a list, a mapping or None."""
    if isinstance(value, Mapping):
        return ",".join(f"{name}={label(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        nested = any(isinstance(item, list | tuple) for item in value)
        return (";" if nested else ",").join(str(label(item)) for item in value)
    return "none" if value is None else cast(Scalar, value)
