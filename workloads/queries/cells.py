"""The meaning of a cell in a table of queries.

Empty: every value together. ``b``: that value. ``a..b``: from a to b, both included. ``<=b``,
``<b``, ``>=a``, ``>a``: up to or from there. ``x|y|z``: any of them, each in one of these forms.
``*``: one query for each value; ``<=*`` and ``>=*``: one for each prefix or suffix. A value of
that very name comes before any other reading, so that ``65+`` or ``0..4`` can be values.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from workloads.errors import WorkloadError
from workloads.operators import Indices
from workloads.queries.domain import Attribute, missing_value

_BOUNDS = ("<=", ">=", "<", ">")


@dataclass(frozen=True, eq=False)
class Choice:
    """The values of one attribute that one query counts.

    Attributes
    ----------
    label : str
        Such as ``sex=female``; empty for all values.
    positions : numpy.ndarray of int
        The numbers of the values, distinct, ascending.
    """

    label: str
    positions: Indices


@dataclass(frozen=True, eq=False)
class Choices:
    """The meaning of a cell: one choice, or one for each value.

    Attributes
    ----------
    listed : tuple of Choice
        One for each query.
    """

    each: bool
    listed: tuple[Choice, ...]


def choices(attribute: Attribute, text: str) -> Choices:
    """The choices that a cell's text stands for.

    Raises
    ------
    WorkloadError
        If it names a value that the attribute does not have.
    """
    every = np.arange(len(attribute.values))
    if not text:
        return Choices(False, (Choice("", every),))
    at = attribute.position(text)
    if at is not None:
        label = f"{attribute.name}={attribute.texts[at]}"
        return Choices(False, (Choice(label, every[at : at + 1]),))
    if text == "*":
        return _for_each(attribute, "=", lambda at: every[at : at + 1])
    if text == "<=*":
        return _for_each(attribute, "<=", lambda at: every[: at + 1])
    if text == ">=*":
        return _for_each(attribute, ">=", lambda at: every[at:])
    label = f"{attribute.name}{text if text.startswith(_BOUNDS) else f'={text}'}"
    return Choices(False, (Choice(label, _positions(attribute, text)),))


def _for_each(attribute: Attribute, sign: str, chosen: Callable[[int], Indices]) -> Choices:
    labels = (f"{attribute.name}{sign}{text}" for text in attribute.texts)
    return Choices(True, tuple(Choice(label, chosen(at)) for at, label in enumerate(labels)))


def _positions(attribute: Attribute, text: str) -> Indices:
    """The values that a text stands for together."""
    position = attribute.position(text)
    if position is not None:
        return np.array([position])
    if "|" in text:
        parts = [_positions(attribute, part.strip()) for part in text.split("|")]
        return np.unique(np.concatenate(parts))
    bound = next((sign for sign in _BOUNDS if text.startswith(sign)), None)
    if bound is not None:
        at = _position(attribute, text.removeprefix(bound).strip())
        ranges = {
            "<=": (0, at + 1),
            "<": (0, at),
            ">=": (at, len(attribute.values)),
            ">": (at + 1, len(attribute.values)),
        }
        return _range(attribute, text, *ranges[bound])
    if ".." in text:
        first, _, last = (part.strip() for part in text.partition(".."))
        return _range(attribute, text, _position(attribute, first), _position(attribute, last) + 1)
    raise WorkloadError(missing_value(attribute, text))


def _range(attribute: Attribute, text: str, first: int, end: int) -> Indices:
    if first >= end:
        raise WorkloadError(
            f"{text!r} holds no value of {attribute.name!r}, whose order is {attribute.described}"
        )
    return np.arange(first, end)


def _position(attribute: Attribute, text: str) -> int:
    position = attribute.position(text)
    if position is None:
        raise WorkloadError(missing_value(attribute, text))
    return position
