"""The domain of a table of queries: named attributes, each with its values in order."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from workloads.errors import WorkloadError
from workloads.parameters import check_size, read_text, repeated
from workloads.queries.table import COLUMNS

Value = str | int | float

LARGEST_FILE_TEXT = 1_000_000
"""Largest size, in bytes, of a domain file; parsing a file of this size takes 14 seconds."""

RESERVED = ("label", "where", "coefficients", "weight", *COLUMNS, "confidence")
"""Names of table columns that are not attributes; no attribute may have such a name."""

_RANGE = re.compile(r"\s*(-?\d+)\s*\.\.\s*(-?\d+)\s*")
_EXPECTED = "expected its values, as in 'age: 0..115' or 'sex: [female, male]'"


@dataclass(frozen=True)
class Attribute:
    """An attribute of the domain, such as age, and its values.

    Attributes
    ----------
    name : str
        The attribute's name, which is also the header of its column in a table.
    values : tuple of str, int or float
        The distinct values, in order.
    """

    name: str
    values: tuple[Value, ...]

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The values as texts, for labels."""
        return tuple(str(value) for value in self.values)

    def position(self, text: str) -> int | None:
        """Return the index of the value that a text names; None if the attribute has no such value.

        Numbers are compared as numbers, so that 7, 7.0 and 07 name the same value.
        """
        if text in self._positions:
            return self._positions[text]
        try:
            return self._positions.get(float(text))
        except ValueError:
            return None

    @property
    def described(self) -> str:
        """The values as text for a message; more than eight values are abbreviated."""
        if len(self.values) <= 8:
            return ", ".join(self.texts)
        return f"{', '.join(self.texts[:3])}, ..., {self.texts[-1]}"

    @cached_property
    def _positions(self) -> dict[str | float, int]:
        """The index of every value, by its text and, if it is a number, by the number too."""
        texts: dict[str | float, int] = {text: at for at, text in enumerate(self.texts)}
        return texts | {float(v): at for at, v in enumerate(self.values) if not isinstance(v, str)}


@dataclass(frozen=True)
class Domain:
    """All combinations of the values of some attributes; the last attribute varies fastest.

    Attributes
    ----------
    attributes : tuple of Attribute
        The attributes, at least one, with distinct names.
    """

    attributes: tuple[Attribute, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the attributes."""
        return tuple(attribute.name for attribute in self.attributes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of values of each attribute."""
        return tuple(len(attribute.values) for attribute in self.attributes)

    @property
    def size(self) -> int:
        """The number of domain cells, d."""
        return math.prod(self.sizes)

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)


def domain_of(written: Domain | str | Path | Mapping[str, object]) -> Domain:
    """Make a domain from a YAML file, or from a mapping of attribute names to values.

    Parameters
    ----------
    written : str, pathlib.Path, Mapping or Domain
        The path of a file with a line for each attribute, such as ``age: 0..115``; or a mapping
        with a list or a range of values for each attribute, as in
        ``{"age": "0..115", "sex": ["female", "male"]}``. A `Domain` is returned unchanged.

    Raises
    ------
    WorkloadError
        If a file cannot be read; if there is no attribute; if an attribute has no values, repeated
        values or a name in `RESERVED`; or if the domain has too many cells.
    """
    if isinstance(written, Domain):
        return written
    if not isinstance(written, str | Path):
        return _make_domain(written, "domain")
    source = f"domain file {str(written)!r}"
    advice = "give the path of a YAML file with a line for each attribute, such as 'age: 0..115'"
    text = read_text("domain file", str(written), advice, LARGEST_FILE_TEXT)
    try:  # imported here, since all else needs only numpy and scipy
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError
    except ImportError:
        raise WorkloadError(
            f"{source}: the package ruamel.yaml, which reads it, is not installed; install it, or "
            "give a mapping of attribute names to values"
        ) from None
    try:
        content = YAML(typ="safe", pure=True).load(text)
    except (ValueError, RuntimeError, YAMLError) as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", error)
        line = f", line {mark.line + 1}" if mark else ""
        raise WorkloadError(f"{source}{line}: not valid YAML ({problem}); {advice}") from None
    return _make_domain(content, source)


def _make_domain(content: object, source: str) -> Domain:
    if not isinstance(content, Mapping) or not content:
        raise WorkloadError(f"{source}: no attributes; {_EXPECTED}, one line for each attribute")
    attributes = tuple(_read_attribute(name, written, source) for name, written in content.items())
    twice = repeated(attribute.name for attribute in attributes)
    if twice is not None:
        raise WorkloadError(f"{source}, attribute {twice!r}: it is listed twice; rename one")
    domain = Domain(attributes)
    check_size(f"{source}: cells, the product of all numbers of values,", domain.size)
    return domain


def _read_attribute(name: object, written: object, source: str) -> Attribute:
    if not isinstance(name, str) or not name.strip():
        raise WorkloadError(f"{source}: an attribute is called {name!r}; {_EXPECTED}")
    named = name.strip()
    here = f"{source}, attribute {named!r}"
    if named in RESERVED:
        raise WorkloadError(
            f"{here}: this is a column of the queries that is not an attribute; rename it"
        )
    listed = written
    if isinstance(written, str) and (match := _RANGE.fullmatch(written)):
        first, last = int(match[1]), int(match[2])
        check_size(f"{here}: the number of values", last - first + 1)
        listed = range(first, last + 1)
    if not isinstance(listed, list | tuple | range) or not listed:
        raise WorkloadError(f"{here} is {written!r}; {_EXPECTED}")
    values: list[Value] = []
    for value in listed:
        sound = not isinstance(value, bool) and value == value and str(value).strip()
        if not isinstance(value, str | int | float) or not sound:
            raise WorkloadError(f"{here}: value {value!r}; expected a number, or a text in quotes")
        values.append(value.strip() if isinstance(value, str) else value)
    numbers = (str(float(value)) for value in values if not isinstance(value, str))
    twice = repeated(map(str, values)) or repeated(numbers)
    if twice is not None:
        raise WorkloadError(f"{here}: value {twice!r} is listed twice; remove one")
    return Attribute(named, tuple(values))
