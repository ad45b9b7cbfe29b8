"""YAML with the line of every key, so that an error can say where it is."""

import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from sweep.errors import ExperimentError

Path = tuple[str | int, ...]
"""The keys and indices that lead to a value."""

LARGEST_TEXT = 100_000
"""The most bytes of an experiment or a cluster file: some seconds to read."""

MOST_VALUES = 100_000
"""The most values of one, its aliases written out."""

DEEPEST = 32
"""The most lists and mappings one within another."""

_LONGEST_LINE = 4096
_CORE = "tag:yaml.org,2002:"
_PLAIN_TAGS = ("str", "int", "float", "bool", "null", "map", "seq")


class HarmfulYAMLError(MarkedYAMLError):
    """YAML with a tag, an alias within what it stands for, or too many levels."""


@dataclass(frozen=True)
class Origin:
    """Where every value of an experiment was written.

    Attributes
    ----------
    file : str
        What the user calls the file.
    places : Mapping[Path, str]
        ``"line 12"``, or ``"--set d=64"``, by path; not necessarily for every path.
    """

    file: str
    places: Mapping[Path, str] = field(default_factory=dict)

    def error(self, path: Path, message: str) -> ExperimentError:
        """The error that says ``message`` about the value at ``path``."""
        nearest = next(
            (path[:n] for n in range(len(path), -1, -1) if path[:n] in self.places), None
        )
        place = self.places[nearest] if nearest is not None else ""
        where = ", ".join(part for part in (self.file, place, dotted(path)) if part)
        return ExperimentError(f"{where}: {message}")

    def moved(self, path: Path, place: str) -> "Origin":
        """The same with everything at and below ``path`` written at ``place``."""
        kept = {at: said for at, said in self.places.items() if at[: len(path)] != path}
        return replace(self, places={**kept, path: place})


@dataclass(frozen=True)
class Document:
    """A YAML file: as parsed for a round trip, and where everything is."""

    tree: CommentedMap
    origin: Origin

    def plain(self) -> dict[str, Any]:
        """The content in plain Python types.

        Raises
        ------
        ExperimentError
            If it holds NaN, an infinite number, or what is neither text nor number, list
            or mapping.
        """
        content: dict[str, Any] = _plain(self.tree, (), self.origin)
        return content

    def text(self) -> str:
        """The content as YAML, comments kept."""
        written = io.StringIO()
        _yaml().dump(self.tree, written)
        return written.getvalue()


def read(text: str, file: str) -> Document:
    """Parse the text of an experiment.

    Raises
    ------
    ExperimentError
        If it is not YAML, or not a mapping; with the line.
    """
    if len(text) > LARGEST_TEXT:
        raise ExperimentError(
            f"{file}: {len(text):,} characters; expected at most {LARGEST_TEXT:,}, the limit of "
            "sweep.experiment.document.LARGEST_TEXT"
        )
    try:
        _check_harmless(text)
        tree = _yaml().load(text)
    except DuplicateKeyError as error:
        raise ExperimentError(f"{_marked(file, error)}: this key stands there twice") from error
    except HarmfulYAMLError as error:
        raise ExperimentError(f"{_marked(file, error)}: {error.problem}") from error
    except MarkedYAMLError as error:
        raise ExperimentError(f"{_marked(file, error)}: not YAML ({error.problem})") from error
    except Exception as error:  # the parser trips over much that is no YAML
        raise ExperimentError(f"{file}: not YAML ({' '.join(str(error).split())})") from error
    if not isinstance(tree, CommentedMap):
        raise ExperimentError(f"{file}: not an experiment; expected 'name:', 'blocks:' and so on")
    places: dict[Path, str] = {}
    for path, line in _places(tree, (), 1):
        places[path] = f"line {line}"
        if len(places) > MOST_VALUES:
            raise Origin(file, places).error(
                path,
                f"more than {MOST_VALUES:,} values with this one, aliases written out; the limit "
                "is sweep.experiment.document.MOST_VALUES",
            )
    return Document(tree, Origin(file, places))


def scalar_list(text: str) -> list[Any]:
    """The values of ``"64, 128"``: what stands between the brackets of a YAML list.

    Raises
    ------
    ValueError
        If it is none.
    """
    try:
        values = plain(f"[{text}]")
        _check_count(values)
    except (YAMLError, ValueError) as error:
        raise ValueError(f"{text!r} is not a list of values") from error
    return list(values)


def plain(text: str) -> Any:
    """What a YAML text says, in plain Python types.

    Raises
    ------
    YAMLError
        If it is none, holds a tag or an alias within what it stands for, or nests too deeply.
    """
    _check_harmless(text)
    return YAML(typ="safe", pure=True).load(text)


def dotted(path: Path) -> str:
    """``blocks[0].workload.d``."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in path]
    return "".join(parts).removeprefix(".")


def _yaml() -> YAML:
    yaml = YAML(typ="rt")
    yaml.width = _LONGEST_LINE
    return yaml


def _marked(file: str, error: MarkedYAMLError) -> str:
    return f"{file}, line {error.problem_mark.line + 1}" if error.problem_mark else file


def _places(node: object, path: Path, line: int) -> Iterator[tuple[Path, int]]:
    """The path and the line of everything below a node, aliases written out."""
    if not isinstance(node, CommentedMap | CommentedSeq):
        return
    keys: Iterable[Any] = node if isinstance(node, CommentedMap) else range(len(node))
    for key in keys:
        position = node.lc.data.get(key)
        here = line if position is None else position[0] + 1
        yield (*path, key), here
        yield from _places(node[key], (*path, key), here)


def _check_harmless(text: str) -> None:
    """Refuse what a parser should not build: see `HarmfulYAMLError`."""
    open_: list[str | None] = []
    for event in YAML(typ="safe", pure=True).parse(text):
        tag = str(getattr(event, "tag", None) or "")
        if tag and tag.removeprefix(_CORE) not in _PLAIN_TAGS:
            raise _harmful(f"the value has the tag {tag!r}; expected a plain value", event)
        if isinstance(event, AliasEvent) and event.anchor in open_:
            raise _harmful(f"alias '*{event.anchor}' stands within what it stands for", event)
        if isinstance(event, MappingStartEvent | SequenceStartEvent):
            open_.append(event.anchor)
            if len(open_) > DEEPEST:
                raise _harmful(
                    f"lists and mappings nest more than {DEEPEST} deep, the limit of "
                    "sweep.experiment.document.DEEPEST",
                    event,
                )
        elif isinstance(event, MappingEndEvent | SequenceEndEvent):
            open_.pop()


def _harmful(problem: str, event: Event) -> HarmfulYAMLError:
    return HarmfulYAMLError(problem=problem, problem_mark=event.start_mark)


def _check_count(values: object) -> None:
    """Refuse more values than the limit, aliases written out."""
    left = [values]
    count = 0
    while left:
        value = left.pop()
        count += 1
        if count > MOST_VALUES:
            raise ValueError(f"more than {MOST_VALUES:,} values")
        if isinstance(value, Mapping):
            left += value.values()
        elif isinstance(value, list):
            left += value


def _plain(value: object, path: Path, origin: Origin) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(one, (*path, str(key)), origin) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(one, (*path, at), origin) for at, one in enumerate(value)]
    if value is None or isinstance(value, bool):
        return value
    for kind in (int, float, str):
        if isinstance(value, kind):
            if isinstance(value, float) and not math.isfinite(value):
                raise origin.error(path, f"the value is {value}; expected a finite number")
            return kind(value)
    raise origin.error(
        path, f"the value is {value!r}; expected a text, a number, a list or a mapping"
    )
