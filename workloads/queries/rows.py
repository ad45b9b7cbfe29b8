"""The queries in one row of a table; each query is a weighted sum of domain cells.

A table cell selects values of its column's attribute:

- an empty cell selects all values together;
- ``b`` selects the value b, and ``a..b`` all values from a to b, both included;
- ``<=b``, ``<b``, ``>=a`` and ``>a`` select all values up to b, below b, from a on, or above a;
- ``x|y|z`` selects everything that x, y or z selects, where x, y and z have any of the forms above;
- ``*`` makes one query for each value, ``<=*`` and ``>=*`` one for each prefix or suffix.

A value's exact name takes precedence over these readings, so ``65+`` or ``0..4`` can be values.
"""

import itertools
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workloads import conditions
from workloads.errors import WorkloadError
from workloads.given import load
from workloads.operators import Array, Indices
from workloads.parameters import nearest
from workloads.queries.domain import Attribute, Domain
from workloads.queries.table import Row, Table, read_number, read_target

_BOUNDS = ("<=", ">=", "<", ">")


@dataclass(frozen=True, eq=False)
class Choices:
    """The choices of values in a table cell: a single choice, or a choice for each value.

    Attributes
    ----------
    each : bool
        Whether there is a choice for each value, as for ``*``.
    labels : tuple of str
        A text for each choice, such as ``sex=female``; the text is empty if all values are chosen.
    positions : tuple of numpy.ndarray of int
        For each choice, the distinct indices of the selected values in ascending order.
    """

    each: bool
    labels: tuple[str, ...]
    positions: tuple[Indices, ...]


def read_choices(attribute: Attribute, text: str) -> Choices:
    """Return the choices that the text of a table cell describes.

    Raises
    ------
    WorkloadError
        If the text names a value that the attribute does not have, or selects no value.
    """
    every = np.arange(len(attribute.values))
    if not text:
        return Choices(False, ("",), (every,))
    slices: dict[str, tuple[str, Callable[[int], Indices]]] = {
        "*": ("=", lambda at: every[at : at + 1]),
        "<=*": ("<=", lambda at: every[: at + 1]),
        ">=*": (">=", lambda at: every[at:]),
    }
    if text in slices and attribute.position(text) is None:
        sign, of = slices[text]
        labels = tuple(f"{attribute.name}{sign}{value}" for value in attribute.texts)
        return Choices(True, labels, tuple(of(at) for at in range(every.size)))
    at = attribute.position(text)
    shown = text if at is None else attribute.texts[at]
    sign = "" if at is None and text.startswith(_BOUNDS) else "="
    return Choices(False, (f"{attribute.name}{sign}{shown}",), (_find_positions(attribute, text),))


def _find_positions(attribute: Attribute, text: str) -> Indices:
    """Return the indices of all values that a text selects."""
    at, end = attribute.position(text), len(attribute.values)
    if at is not None:
        return np.array([at])
    if "|" in text:
        parts = [_find_positions(attribute, part.strip()) for part in text.split("|")]
        return np.unique(np.concatenate(parts))
    bound = next((sign for sign in _BOUNDS if text.startswith(sign)), None)
    if bound is not None:
        at = _find_position(attribute, text.removeprefix(bound).strip())
        ranges = {"<=": (0, at + 1), "<": (0, at), ">=": (at, end), ">": (at + 1, end)}
        chosen = np.arange(*ranges[bound])
    elif ".." in text:
        first, last = (_find_position(attribute, end.strip()) for end in text.split("..", 1))
        chosen = np.arange(first, last + 1)
    else:
        chosen = np.array([_find_position(attribute, text)])
    if not chosen.size:
        raise WorkloadError(
            f"{text!r} selects no value of {attribute.name!r}; its order is {attribute.described}"
        )
    return chosen


def _find_position(attribute: Attribute, text: str) -> int:
    position = attribute.position(text)
    if position is None:
        # comparing the text with a thousand values takes 50 ms
        hint = nearest(text, attribute.texts) if len(attribute.values) <= 1000 else ""
        if not hint.startswith("did you mean"):
            hint = f"expected one of: {attribute.described}"
        raise WorkloadError(f"{text!r} is not a value of {attribute.name!r}; {hint}")
    return position


@dataclass(frozen=True, eq=False)
class RowQueries:
    """The queries of one row of a table.

    Attributes
    ----------
    target : tuple of float
        The largest variance of each query's answer, and the confidence level of its margin of
        error.
    weight : float
        The factor that multiplies every answer.
    choices : tuple of Choices
        The choices of values, one `Choices` for each attribute.
    coefficients : numpy.ndarray, optional
        A coefficient for every domain cell, in the shape of the domain: those that the row lists,
        or 1 where the row's condition holds and 0 elsewhere. None if the row has neither.
    """

    row: Row
    domain: Domain
    label: str
    target: tuple[float, float]
    weight: float
    choices: tuple[Choices, ...]
    coefficients: Array | None

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The names of the queries, in order."""
        own = self.row.cells.get("label", "")
        where = "" if own else self.row.cells.get("where", "")
        shown = (c.labels if c.each or not own else ("",) for c in self.choices)
        names = (", ".join(filter(None, [*parts, where])) for parts in itertools.product(*shown))
        return tuple(f"{own}: {n}" if own and n else own or n or "total" for n in names)

    def queries(self) -> Iterator[tuple[Indices, Array]]:
        """Yield each query in order, as its distinct domain cells and their coefficients.

        Raises
        ------
        WorkloadError
            If the row's condition holds for no cell of a query.
        """
        chosen = itertools.product(*(c.positions for c in self.choices))
        for label, positions in zip(self.labels, chosen, strict=True):
            places = np.ix_(*positions)
            cells = np.ravel_multi_index(places, self.domain.sizes).ravel()
            values = np.full(cells.size, self.weight)
            if self.coefficients is not None:
                values *= self.coefficients[places].ravel()
            used = values != 0
            if not used.any():
                raise self.row.error("where", f"{label!r} holds for no cell of the domain")
            yield cells[used], values[used]


def read_rows(table: Table, domain: Domain) -> list[RowQueries]:
    """Read the queries in each row of a table; a repeated condition is evaluated only once.

    Raises
    ------
    WorkloadError
        If a table cell is not valid; the message names its row and column.
    """
    truth_of = cache(partial(_evaluate, domain))
    read = []
    for row in table.rows:
        weight = read_number(row, "weight", row.cells.get("weight", "1"))
        if not (math.isfinite(weight) and weight):
            raise row.error("weight", f"{row.cells['weight']!r}; expected a number other than 0")
        stated = read_target(row)
        coefficients = None
        if "coefficients" in row.cells:
            coefficients = _read_coefficients(row, domain, table.folder)
        chosen = []
        for attribute in domain:
            with row.located(attribute.name):
                chosen.append(read_choices(attribute, row.cells.get(attribute.name, "")))
        if "where" in row.cells:
            with row.located("where"):
                coefficients = truth_of(row.cells["where"])
        pairs = sorted(zip(chosen, domain.names, strict=True), key=lambda pair: pair[0].each)
        labels = [f"{n}={row.cells[n]}" if c.each else c.labels[0] for c, n in pairs]
        named = ", ".join(filter(None, [*labels, row.cells.get("where")])) or "total"
        label = row.cells.get("label", named)
        read.append(RowQueries(row, domain, label, stated, weight, tuple(chosen), coefficients))
    return read


def _evaluate(domain: Domain, text: str) -> Array:
    """Return an array in the shape of the domain: 1 where the condition holds and 0 elsewhere."""
    condition = conditions.parse(text)
    names = domain.names
    for name in sorted(condition.names - set(names)):
        raise WorkloadError(
            f"condition {text!r} uses {name!r}, which is no attribute; {nearest(name, names)}"
        )
    used = [a for a in domain if a.name in condition.names]
    truth = [
        condition.holds(dict(zip((a.name for a in used), values, strict=True)))
        for values in itertools.product(*(a.values for a in used))
    ]
    shape = [len(a.values) if a in used else 1 for a in domain]
    return np.broadcast_to(np.array(truth, dtype=np.float64).reshape(shape), domain.sizes)


def _read_coefficients(row: Row, domain: Domain, folder: Path | None) -> Array:
    """Return the coefficients in a row or in the file that it names, in the domain's shape."""
    other = next((name for name in (*domain.names, "where") if name in row.cells), None)
    if other is not None:
        raise row.error(
            other, "filled beside 'coefficients', which define the whole query: leave it empty"
        )
    if "label" not in row.cells:
        raise row.error("label", "empty; a query given by its coefficients needs a name")
    text = row.cells["coefficients"]
    if folder is None and not text.startswith("["):
        raise row.error(
            "coefficients",
            f"{text!r} is a file, and a change of its content would go unnoticed; in an experiment "
            "write the list itself, or use workload 'file'",
        )
    with row.located("coefficients"):
        values = _read_list(text, folder or Path())
    if values.shape != (domain.size,) or values.dtype.kind not in "biuf":
        raise row.error(
            "coefficients",
            f"{values.size} values of type {values.dtype}; expected {domain.size} numbers, one for "
            "each cell of the domain, the last attribute varying fastest",
        )
    coefficients = values.astype(np.float64)
    if not np.all(np.isfinite(coefficients)) or not np.any(coefficients):
        raise row.error("coefficients", "expected finite numbers, not all of them 0")
    return coefficients.reshape(domain.sizes)


def _read_list(text: str, folder: Path) -> NDArray[np.generic]:
    """Return the numbers in a list such as ``[1, 0.5]`` or in a file, of any shape and type."""
    path = folder / Path(text).expanduser()
    try:
        if text.startswith("["):
            return np.array(json.loads(text))
        if path.suffix == ".csv":
            return np.loadtxt(path, delimiter=",", ndmin=1, encoding="utf-8-sig").ravel()
    except (OSError, ValueError) as error:
        raise WorkloadError(
            f"not a list of numbers ({getattr(error, 'strerror', None) or error}); expected a list "
            "such as [1, 0.5, 0], or a .npy or .csv file with a number for each cell"
        ) from None
    loaded = load(str(path))
    return loaded if isinstance(loaded, np.ndarray) else np.array(list(loaded))
