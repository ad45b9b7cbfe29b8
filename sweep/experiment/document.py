"""Read YAML, and record the line of every value for error messages."""

import io
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from pydantic import BaseModel, JsonValue, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from sweep.errors import ExperimentError
from workloads.parameters import limit, nearest, raised_by

KeyPath = tuple[str | int, ...]
"""The type of the keys and indices that lead to a value, such as ``("blocks", 0, "workload")``."""

LARGEST_TEXT = limit("LARGEST_TEXT", 100_000)
"""Largest number of characters in an experiment file or cluster file; parsing a file of this size
takes seconds."""

MOST_VALUES = limit("MOST_VALUES", 100_000)
"""Largest number of values in an experiment file; the values of an alias count at every use.

Without a limit, a kilobyte of nested aliases would exhaust the memory.
"""

DEEPEST = 32
"""Largest depth to which lists and mappings may be nested: far from Python's recursion limit."""

_LONGEST_LINE = 4096
"""Width of dumped YAML, so that no text is broken into lines that a reader would not expect."""
_UNFIT = re.compile("[\0\ud800-\udfff]")
"""Matches NUL and surrogates: YAML escapes can produce them, but no text may contain them."""
_CORE = "tag:yaml.org,2002:"
_TOO_DEEP = f"lists and mappings nest more than {DEEPEST} deep; write them with fewer levels"
_PLAIN_TAGS = ("str", "int", "float", "bool", "null", "map", "seq", "timestamp")


@dataclass(frozen=True)
class Location:
    """The location of a value in an experiment, for error messages.

    ``location / "targets" / 0`` is the location of ``value["targets"][0]``.

    Attributes
    ----------
    file : str
        Name of the file, as the user wrote it.
    written : Mapping[KeyPath, str]
        Maps the path of a value to where the value was written: ``"line 12"`` or ``"--set d=64"``.
        A value without an entry was written where the nearest enclosing value was.
    path : KeyPath
        The path of the value; empty for the whole experiment.
    """

    file: str
    written: Mapping[KeyPath, str] = field(default_factory=dict)
    path: KeyPath = ()

    def __truediv__(self, key: str | int) -> "Location":
        return Location(self.file, self.written, (*self.path, key))

    @property
    def is_written(self) -> bool:
        """Whether the file or ``--set`` sets this value; false for a default."""
        return self._written_path in self.written

    @property
    def _written_path(self) -> KeyPath:
        """The path without an index 0 where a single value is written in place of a list."""
        path: KeyPath = ()
        for step in self.path:
            path = path if step == 0 and (*path, 0) not in self.written else (*path, step)
        return path

    def error(self, message: str) -> ExperimentError:
        """Return an error whose message begins with the location of the value."""
        path = self._written_path
        above = (path[:n] for n in range(len(path), -1, -1))
        written = next((self.written[path] for path in above if path in self.written), "")
        steps = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path)
        dotted = "".join(steps).removeprefix(".")  # blocks[0].workload.d
        where = ", ".join(part for part in (self.file, written, dotted) if part)
        return ExperimentError(f"{where}: {message}")


@dataclass(frozen=True)
class Document:
    """The content of a YAML file in plain Python types, and the locations of its values."""

    content: dict[str, Any]
    location: Location

    def text(self) -> str:
        """Return the content as YAML text."""
        written, yaml = io.StringIO(), YAML(typ="rt")
        yaml.width = _LONGEST_LINE
        yaml.dump(self.content, written)
        return written.getvalue()


def read_document(text: str, file: str) -> Document:
    """Parse the text of an experiment or of a ``cluster.yaml``.

    Raises
    ------
    ExperimentError
        If the text is too long, is not valid YAML, is not a mapping, or contains NaN, an infinite
        number or a value that has no plain type, such as a date. If the error is at one value, the
        message names the value's line.
    """
    if len(text) > LARGEST_TEXT:
        raise ExperimentError(
            f"{file}: {len(text):,} characters; expected at most {LARGEST_TEXT:,}, the limit "
            f"{raised_by('LARGEST_TEXT')}"
        )
    content, lines = parse_yaml(text, file)
    if not isinstance(content, dict):
        raise ExperimentError(f"{file}: not a mapping; expected keys, each with a value")
    return Document(content, Location(file, lines))


def parse_yaml(text: str, file: str = "") -> tuple[JsonValue, dict[KeyPath, str]]:
    """Return the content of a YAML text with aliases expanded, and the line of every value.

    Raise ExperimentError for invalid YAML, a duplicate key, too many values, or a value that has a
    tag, is nested too deeply, has no plain type, is not finite, or contains a character that no
    text of an experiment may have.
    """
    yaml = YAML(typ="safe", pure=True)
    lines: dict[KeyPath, str] = {}

    def refuse(problem: str, node: Node, path: KeyPath) -> NoReturn:
        raise Location(file, {(): f"line {node.start_mark.line + 1}"}, path).error(problem)

    def value_of(node: Node, path: KeyPath, line: int | None = None) -> JsonValue:
        """Return the value of a node, and record ``line``, if it is given, as the value's line."""
        if line is not None:
            lines[path] = f"line {line + 1}"
        if len(lines) > MOST_VALUES:
            most = f"more than {MOST_VALUES:,} values with this one, aliases expanded"
            refuse(f"{most}, the limit {raised_by('MOST_VALUES')}", node, path)
        tag = str(node.tag).removeprefix(_CORE)
        if tag not in _PLAIN_TAGS:
            refuse(f"the value has the tag {str(node.tag)!r}; expected a plain value", node, path)
        if len(path) > DEEPEST:  # or endlessly, by an alias inside the value that it refers to
            refuse(_TOO_DEEP, node, path[:1])
        if isinstance(node, SequenceNode):
            return [
                value_of(inner, (*path, number), inner.start_mark.line)
                for number, inner in enumerate(node.value)
            ]
        if isinstance(node, MappingNode):
            content: dict[str, JsonValue] = {}
            yaml.constructor.flatten_mapping(node)
            merged, written = len(node.merge or ()), set[str]()
            for number, (key_node, inner) in enumerate(node.value):
                if not isinstance(key_node, ScalarNode):
                    refuse("a list or a mapping cannot be a key; expected a text", key_node, path)
                key = str(value_of(key_node, path))
                if key in written:
                    refuse(f"duplicate key {key!r}", key_node, path)
                if number >= merged:  # the mapping's own key overrides a merged one
                    written.add(key)
                content[key] = value_of(inner, (*path, key), key_node.start_mark.line)
            return content
        if unfit := _UNFIT.search(node.value):
            refuse(f"the text holds {unfit[0]!a}, which no text may hold", node, path)
        value = yaml.constructor.construct_object(node)
        if isinstance(value, float) and not math.isfinite(value):
            refuse(f"the value is {value}; expected a finite number", node, path)
        if not isinstance(value, str | int | float | None):
            expected = "a text, a number, a list or a mapping"
            refuse(f"the value is {value!r}; expected {expected}", node, path)
        return value

    try:
        tree = yaml.compose(text)
        return (None if tree is None else value_of(tree, ())), lines
    except ExperimentError:
        raise
    except RecursionError:
        raise Location(file).error(_TOO_DEEP) from None
    except Exception as error:  # the parser fails in many ways on invalid YAML
        mark = getattr(error, "problem_mark", None)
        where: dict[KeyPath, str] = {(): f"line {mark.line + 1}"} if mark else {}
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise Location(file, where).error(f"not valid YAML ({problem})") from None


def explain_error(
    raised: ValidationError, models: Mapping[object, type[BaseModel]]
) -> tuple[KeyPath, str]:
    """Return the location and the message of the one validation error to report.

    An unknown key is reported before any other error, since it may have caused the others. The
    message is a clause. ``models`` maps keys of the file to the models of their values, and None to
    the model of the whole file.
    """
    errors = raised.errors(include_url=False)
    error = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])
    outer, *inside = error["loc"] or (None,)
    model = models.get(outer if inside else None, models[None])
    text = error["msg"].removeprefix("Value error, ")
    match error["type"]:
        case "extra_forbidden":
            keys = [field.alias or name for name, field in model.model_fields.items()]
            text = f"no such key; {nearest(str(error['loc'][-1]), keys)}"
        case "missing":
            text = f"needs {error['loc'][-1]!r}"
        case "too_short":
            text = "is empty; expected at least one"
        case "path_not_file":
            text = f"{str(error['input'])!r} is not a file"
        case "model_type" | "dict_type":
            text = f"should be keys, each with a value, not {error['input']!r}"
        case kind if kind != "value_error":  # the message of our own validator stays as it is
            text = text.partition(", unable")[0].partition(", got")[0].removeprefix("Input ")
            text = text.replace("valid tuple", "list")  # the type that keeps a YAML list
            text = f"{text[0].lower()}{text[1:]}, not {error['input']!r}"
    return error["loc"], text
