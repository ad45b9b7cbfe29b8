"""The canonical form of values, on which identities, hashes and coordinates depend."""

import hashlib
import inspect
import json
from collections.abc import Mapping
from typing import Any, cast

from workloads import WorkloadError
from workloads.parameters import bind

Scalar = str | int | float | bool
"""The label of a point along a coordinate."""


def canonical(content: Any) -> str:
    """``content`` as canonical JSON.

    Raises
    ------
    ValueError
        If it holds NaN or an infinite number.
    TypeError
        If it holds a value that JSON cannot represent.
    """
    return json.dumps(
        content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def digest(content: Any) -> str:
    """The hash (`digest_of`) of ``content`` as canonical JSON; raises as `canonical`."""
    return digest_of(canonical(content))


def digest_of(text: str) -> str:
    """The first 20 hexadecimal digits of the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def rounded(value: float) -> float:
    """The value rounded to 12 significant digits, as in identities and coordinates."""
    return float(f"{value:.12g}")


def values_of(parameter: inspect.Parameter | None, value: Any) -> tuple[list[Any], bool]:
    """The values of a parameter that is written as ``value``, and whether they form an axis."""
    if isinstance(value, Mapping) and value.keys() == {"axis"} and isinstance(value["axis"], list):
        return value["axis"], True
    if parameter is not None and isinstance(value, list):
        try:
            bind("", {parameter.name: parameter}, {parameter.name: value}, WorkloadError)
        except WorkloadError:
            return value, True
    return [value], False


def label(value: Any) -> Scalar:
    """The label of a value: itself, or a short text for a list, a mapping or None."""
    if isinstance(value, Mapping):
        return ",".join(f"{name}={label(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        nested = any(isinstance(item, list | tuple) for item in value)
        return (";" if nested else ",").join(str(label(item)) for item in value)
    return "none" if value is None else cast(Scalar, value)
