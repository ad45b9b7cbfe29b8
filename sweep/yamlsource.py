"""YAML with the line of every key, so that an error can say where it is."""

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from sweep.errors import ExperimentError

Path = tuple[str | int, ...]
"""The keys and indices that lead to a value."""

_LONGEST_LINE = 4096


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
    try:
        tree = _yaml().load(text)
    except DuplicateKeyError as error:
        raise ExperimentError(f"{_marked(file, error)}: this key stands there twice") from error
    except MarkedYAMLError as error:
        raise ExperimentError(f"{_marked(file, error)}: not YAML ({error.problem})") from error
    except (YAMLError, ValueError) as error:
        raise ExperimentError(f"{file}: not YAML ({' '.join(str(error).split())})") from error
    if not isinstance(tree, CommentedMap):
        raise ExperimentError(f"{file}: not an experiment; expected 'name:', 'blocks:' and so on")
    places: dict[Path, str] = {}
    _collect(tree, (), places)
    return Document(tree, Origin(file, places))


def scalar_list(text: str) -> list[Any]:
    """The values of ``"64, 128"``: what stands between the brackets of a YAML list.

    Raises
    ------
    ValueError
        If it is none.
    """
    try:
        values = YAML(typ="safe").load(f"[{text}]")
    except YAMLError as error:
        raise ValueError(f"{text!r} is not a list of values") from error
    return list(values)


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


def _collect(node: object, path: Path, places: dict[Path, str]) -> None:
    if isinstance(node, CommentedMap):
        children = [(key, node[key], node.lc.data.get(key)) for key in node]
    elif isinstance(node, CommentedSeq):
        children = [(at, value, node.lc.data.get(at)) for at, value in enumerate(node)]
    else:
        return
    for key, value, position in children:
        if position is not None:
            places[(*path, key)] = f"line {position[0] + 1}"
        _collect(value, (*path, key), places)


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
