"""The queries in one row of a table: cells of the domain, with coefficients.

A cell of the table selects values of an attribute. An empty cell selects all values together.
``b``: that value. ``a..b``: from a to b, both included. ``<=b``, ``<b``, ``>=a``, ``>a``: the
values up to b, or from a on. ``x|y|z``: any of these, each in one of the forms above. ``*``: one
query for each value; ``<=*`` and ``>=*``: one for each prefix or suffix. A value's exact name takes
precedence over other readings, so that ``65+`` or ``0..4`` can be values.
"""

import itertools
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, reduce
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workloads import conditions
from workloads.errors import WorkloadError
from workloads.given import load
from workloads.operators import Array, Indices
from workloads.parameters import nearest
from workloads.queries.domain import Attribute, Domain, missing_value
from workloads.queries.table import Row, Target, number, target

_BOUNDS = ("<=", ">=", "<", ">")


@dataclass(frozen=True, eq=False)
class Choice:
    """The values of one attribute that one query selects.

    Attributes
    ----------
    label : str
        The choice in words, such as ``sex=female``; empty for all values.
    positions : numpy.ndarray of int
        The indices of the values, distinct, ascending.
    """

    label: str
    positions: Indices


@dataclass(frozen=True, eq=False)
class Choices:
    """The meaning of a table's cell: one choice, or one for each value of the attribute.

    Attributes
    ----------
    each : bool
        Whether there is one choice for each value.
    listed : tuple of Choice
        The choices, each for a query of its own.
    """

    each: bool
    listed: tuple[Choice, ...]


def choices(attribute: Attribute, text: str) -> Choices:
    """The choices that a cell's text describes.

    Raises
    ------
    WorkloadError
        If the text names a value that the attribute does not have, or selects no value.
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
    """The indices of the values that a text describes together."""
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


_REMEMBERED = 4096


@dataclass(frozen=True, eq=False)
class Query:
    """One query: its cells of the domain and their coefficients.

    Attributes
    ----------
    cells : numpy.ndarray of int
        The indices of the cells, distinct.
    coefficients : numpy.ndarray of float, or float
        The coefficients of those cells.
    """

    label: str
    cells: Indices
    coefficients: Array | float


@dataclass(frozen=True, eq=False)
class RowQueries:
    """The queries of a row.

    Attributes
    ----------
    target : Target
        The target of each of these queries.
    choices : tuple of Choices
        The choices of every attribute; empty if the row has coefficients.
    is_product : bool
        Whether every query is the product of its choices, without a condition that excludes cells.
    weight : float
        The factor that multiplies every answer.
    queries : callable
        Iterates over the queries in order.
    """

    row: Row
    label: str
    target: Target
    choices: tuple[Choices, ...]
    is_product: bool
    weight: float
    queries: Callable[[], Iterator[Query]]

    @property
    def count(self) -> int:
        """Number of queries."""
        return math.prod(len(c.listed) for c in self.choices)

    @property
    def entries(self) -> int:
        """An upper bound on the number of coefficients of all queries of the row."""
        return math.prod(sum(len(choice.positions) for choice in c.listed) for c in self.choices)


class Reader:
    """Reads the rows of tables over one domain, caching the meaning of cells and conditions."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain

        @lru_cache(_REMEMBERED)
        def chosen(at: int, text: str) -> Choices:
            return choices(domain.attributes[at], text)

        self._choices = chosen
        self._mask = lru_cache(64)(self._evaluated)

    def row_queries(self, row: Row, folder: Path | None) -> RowQueries:
        """Read the queries of a row.

        Parameters
        ----------
        folder : Path, optional
            The folder of files of coefficients; None if the table may name none.

        Raises
        ------
        WorkloadError
            If a cell of the row cannot be understood; the message has place and column.
        """
        weight = number(row, "weight") if "weight" in row.cells else 1.0
        if not (math.isfinite(weight) and weight):
            raise row.error("weight", f"{row.cells['weight']!r}; expected a number other than 0")
        stated = target(row)
        if "coefficients" in row.cells:
            return self._weighted(row, stated, weight, folder)
        chosen = tuple(self._chosen(row, at) for at in range(len(self._domain.names)))
        written = [c.listed[0].label for c in chosen if not c.each and c.listed[0].label]
        each = [
            f"{n}={row.cells[n]}" for n, c in zip(self._domain.names, chosen, strict=True) if c.each
        ]
        condition = row.cells.get("where")
        named = ", ".join([*written, *each, *([condition] if condition else [])]) or "total"
        label = row.cells.get("label", named)
        mask = None if condition is None else self._condition(row)
        own = "label" in row.cells

        def queries() -> Iterator[Query]:
            for combination in itertools.product(*(c.listed for c in chosen)):
                yield self._query(row, combination, chosen, mask, label if own else "", weight)

        return RowQueries(row, label, stated, chosen, mask is None, weight, queries)

    def _query(
        self,
        row: Row,
        combination: tuple[Choice, ...],
        chosen: tuple[Choices, ...],
        mask: NDArray[np.bool_] | None,
        label: str,
        weight: float,
    ) -> Query:
        cells = _cells(combination, self._domain.sizes)
        if mask is not None:
            cells = cells[mask[np.unravel_index(cells, self._domain.sizes)]]
        parts = [
            choice.label
            for choice, c in zip(combination, chosen, strict=True)
            if choice.label and (c.each or not label)
        ]
        if not label and "where" in row.cells:
            parts.append(row.cells["where"])
        name = ", ".join(parts)
        named = f"{label}: {name}" if label and name else label or name or "total"
        if not cells.size:
            raise row.error("where", f"{named!r} holds for no cell of the domain")
        return Query(named, cells, weight)

    def _chosen(self, row: Row, at: int) -> Choices:
        name = self._domain.names[at]
        try:
            return self._choices(at, row.cells.get(name, ""))
        except WorkloadError as error:
            raise row.error(name, str(error)) from None

    def _condition(self, row: Row) -> NDArray[np.bool_]:
        try:
            return self._mask(row.cells["where"])
        except WorkloadError as error:
            raise row.error("where", str(error)) from None

    def _evaluated(self, text: str) -> NDArray[np.bool_]:
        """Mask of the cells where a condition holds, broadcastable to the domain's shape."""
        condition = conditions.parse(text)
        names = self._domain.names
        for name in sorted(condition.names - set(names)):
            raise WorkloadError(
                f"condition {text!r} uses {name!r}, not an attribute; {nearest(name, names)}"
            )
        used = [a for a in self._domain if a.name in condition.names]
        truth = [
            condition.holds(dict(zip((a.name for a in used), values, strict=True)))
            for values in itertools.product(*(a.values for a in used))
        ]
        shape = [len(a.values) if a in used else 1 for a in self._domain]
        return np.broadcast_to(np.array(truth).reshape(shape), self._domain.sizes)

    def _weighted(self, row: Row, stated: Target, weight: float, folder: Path | None) -> RowQueries:
        other = next((n for n in (*self._domain.names, "where") if n in row.cells), None)
        if other is not None:
            raise row.error(
                other, "filled beside 'coefficients', which define the whole query: leave it empty"
            )
        if "label" not in row.cells:
            raise row.error("label", "empty; a query given by its coefficients needs a name")
        values = _coefficients(row, self._domain.size, folder)
        cells = np.flatnonzero(values)
        query = Query(row.cells["label"], cells, weight * values[cells])
        return RowQueries(row, query.label, stated, (), False, weight, lambda: iter((query,)))


def _cells(combination: tuple[Choice, ...], sizes: tuple[int, ...]) -> Indices:
    """The indices of the cells that a product of choices selects."""

    def joined(indices: Indices, at: int) -> Indices:
        inner: Indices = np.add.outer(indices * sizes[at], combination[at].positions).ravel()
        return inner

    return reduce(joined, range(len(sizes)), np.zeros(1, dtype=np.intp))


def _coefficients(row: Row, size: int, folder: Path | None) -> Array:
    text = row.cells["coefficients"]
    values = _listed(row, text) if text.startswith("[") else _in_file(row, text, folder)
    if values.shape != (size,) or values.dtype.kind not in "biuf":
        raise row.error(
            "coefficients",
            f"{values.size} values of type {values.dtype}; expected {size} numbers, one for each "
            "cell of the domain, the last attribute varying fastest",
        )
    coefficients = values.astype(np.float64)
    if not np.all(np.isfinite(coefficients)) or not np.any(coefficients):
        raise row.error("coefficients", "not all finite, or all 0; expected finite numbers")
    return coefficients


def _listed(row: Row, text: str) -> NDArray[np.generic]:
    try:
        return np.array(json.loads(text))
    except ValueError as error:
        raise row.error(
            "coefficients", f"not a list of numbers ({error}); expected such as [1, 0.5, 0]"
        ) from None


def _in_file(row: Row, text: str, folder: Path | None) -> NDArray[np.generic]:
    if folder is None:
        raise row.error(
            "coefficients",
            f"{text!r} is a file, whose content would not identify the results; in an experiment "
            "write the list itself, or use workload 'file'",
        )
    path = folder / Path(text).expanduser()
    try:
        if path.suffix == ".csv":
            return np.loadtxt(path, delimiter=",", ndmin=1, encoding="utf-8-sig").ravel()
        loaded = load(str(path))
    except (OSError, ValueError) as error:
        raise row.error(
            "coefficients",
            f"file {text!r} cannot be read ({getattr(error, 'strerror', None) or error}); expected "
            "a list such as [1, 0.5, 0], or a .npy or .csv file with a number for each cell",
        ) from None
    if not isinstance(loaded, np.ndarray):
        raise row.error("coefficients", f"file {text!r} holds several arrays; expected one")
    return loaded
