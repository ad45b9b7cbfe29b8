"""Canonical values, from which identities, hashes and coordinate labels are computed."""

import hashlib
import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from workloads.parameters import fits

Scalar = str | int | float | bool
"""The type of a coordinate's labels."""


@dataclass(frozen=True)
class Spec:
    """A workload, a targets rule or a mechanism of a cell: its name, and a value for everything.

    Attributes
    ----------
    params : Mapping[str, object]
        One canonical value for every parameter of the workload or the rule, or for every option of
        the mechanism, defaults included.
    label : str
        The label along the axis ``targets`` or ``mechanism``, if it differs from the name. It is
        not part of a cell's identity.
    """

    name: str
    params: Mapping[str, object] = field(default_factory=dict)
    label: str = field(default="", compare=False)

    @property
    def seed(self) -> int | None:
        """The seed, if the workload or the rule is random."""
        seed = self.params.get("seed")
        return seed if isinstance(seed, int) else None

    @property
    def shown(self) -> str:
        """The label; by default the name."""
        return self.label or self.name


def canonical(content: object) -> str:
    """Return ``content`` as canonical JSON: sorted keys, no spaces.

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
    """Return the first 20 hexadecimal digits of the SHA-256 hash of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def round_value(value: float) -> float:
    """Return ``value`` rounded to 12 significant digits, as in identities and coordinates."""
    return float(f"{value:.12g}")


def list_values(
    parameter: inspect.Parameter | None, value: object
) -> tuple[Sequence[object], bool]:
    """Return the values that ``value`` lists for a parameter, and whether they form an axis.

    ``{"axis": [...]}`` always forms an axis. A list forms one only if the parameter is known and
    its type does not accept the list as a single value.
    """
    if isinstance(value, Mapping) and value.keys() == {"axis"} and isinstance(value["axis"], list):
        return value["axis"], True
    if isinstance(value, list) and parameter and not fits(value, parameter.annotation):
        return value, True
    return [value], False


def label(value: object) -> Scalar:
    """Return the label of a value: the value itself, or a text for a list, a mapping or None."""
    if isinstance(value, Mapping):
        return ",".join(f"{name}={label(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        nested = any(isinstance(item, list | tuple) for item in value)
        return (";" if nested else ",").join(str(label(item)) for item in value)
    return "none" if value is None else cast(Scalar, value)
