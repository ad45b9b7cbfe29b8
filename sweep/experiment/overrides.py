"""Apply changes from the command line to an experiment, such as ``--set d=64,128``."""

import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from operator import methodcaller
from typing import Any

from pydantic import JsonValue

import solvers
import workloads
from solvers.errors import SolverError
from solvers.problem.neighbours import as_neighbours
from sweep.errors import ExperimentError
from sweep.experiment.canonical import Scalar, label, list_values
from sweep.experiment.document import Document, KeyPath, parse_yaml
from sweep.experiment.schema import Block, ComparisonTable, Entry, Experiment
from sweep.experiment.variables import BUDGETS, OF_REFERENCE
from workloads.parameters import nearest

_WHOLE = ("delta", "epsilon", "keep")
"""Keys of the experiment itself, not of a block, that take lists. If a block sets an option of the
same name, ``--set`` changes that option instead."""
_SINGLE = ("time_limit", "simulate", "reference")
_BLOCK = ("mechanism", "targets", "neighbours", "replicates")
_COMPARED = {"published", "closed_form", "claims"}

_Keys = dict[str, JsonValue]
_Values = list[JsonValue]

Settings = str | Sequence[str] | Mapping[str, object]
"""New values for keys of an experiment: ``["d=64,128"]`` or ``{"d": [64, 128]}``."""


def parse(settings: Settings) -> dict[str, _Values]:
    """Return the values that settings assign to each key.

    Raises
    ------
    ExperimentError
        If a setting has no ``=``, or its values cannot be read.
    """
    if isinstance(settings, Mapping):
        return {key: _make_plain(value, key) for key, value in settings.items()}
    values_of: dict[str, _Values] = {}
    for setting in [settings] if isinstance(settings, str) else settings:
        key, equals, text = setting.partition("=")
        try:
            values, _ = parse_yaml(f"[{text}]")
        except ExperimentError:
            raise ExperimentError(f"--set {setting}: {text!r} is not a list of values") from None
        if not equals or not key.strip() or not isinstance(values, list) or not values:
            raise ExperimentError(f"--set {setting or repr('')}: expected key=value[,value...]")
        values_of[key.strip()] = values
    return values_of


def _make_plain(value: object, key: str) -> _Values:
    """Convert Python values, such as a numpy array, to values of a YAML file."""
    try:
        plain = json.loads(json.dumps(value, default=methodcaller("tolist"), allow_nan=False))
        return plain if isinstance(plain, list) else [plain]
    except (AttributeError, TypeError, ValueError):
        raise ExperimentError(
            f"--set {key}: the value is {value!r}; expected texts, finite numbers, lists and "
            "mappings"
        ) from None


@dataclass(frozen=True)
class _Home:
    """A value of the experiment that a setting replaces.

    Attributes
    ----------
    path : KeyPath
        Path of the value in the experiment.
    coordinate : str
        Name of the coordinate whose labels come from the value.
    labels : sequence of Scalar
        Labels of the coordinate before the change; empty if the value has no coordinate.
    group : str, optional
        Group of the block that contains the value; None for a value of the experiment itself.
    """

    path: KeyPath
    coordinate: str
    labels: Sequence[Scalar] = ()
    group: str | None = None

    def concerns(self, statement: Mapping[str, Any]) -> bool:
        """Return whether the numbers of a table or claim depend on the coordinate."""
        if self.group is None:
            return self.coordinate in BUDGETS.get(statement.get("variable", ""), ())
        return statement.get("group") in (None, self.group)


def keys(experiment: Experiment) -> list[str]:
    """Return the keys that settings can change in an experiment."""
    owned = (known for block in experiment.blocks for _, known in _list_owners(block))
    return sorted({*_WHOLE, *_SINGLE, *_BLOCK}.union(*owned))


def apply(document: Document, experiment: Experiment, settings: Settings) -> Document:
    """Return a copy of the document in which the settings have replaced values.

    A setting's key is ``epsilon``, ``delta``, ``keep``, ``time_limit``, ``simulate``,
    ``reference``, ``replicates``, ``mechanism``, ``targets`` or ``neighbours``; a parameter of a
    workload or of targets; or an option that a block sets for all its mechanisms. A parameter or
    option is changed in every block that has it. If a block has an option called ``epsilon``,
    ``delta`` or ``keep``, that option is changed instead of the experiment's key. If the key's axis
    is zipped with other axes, all of them are reduced to the points at which the key has one of the
    new values.

    Parameters
    ----------
    experiment : Experiment
        The experiment before the change.

    Raises
    ------
    ExperimentError
        If a setting is not valid, or no block takes its key; the message suggests a key.
    """
    content, written = deepcopy(document.content), dict(document.location.written)
    for key, values in parse(settings).items():
        source = f"--set {key}={','.join(map(str, values))}"
        if key in (*_SINGLE, "replicates") and len(values) != 1:
            raise ExperimentError(f"{source}: expected one value")
        homes = list(_find_homes(experiment, key))
        if not homes:
            near = nearest(key, keys(experiment))
            raise ExperimentError(f"{source}: no block takes {key!r}; {near}")
        if key == "reference" and values[0] != experiment.reference:
            for kind in content.keys() & _COMPARED:
                content[kind] = [s for s in content[kind] if _refers_to(s, values[0])]
        elif key != "seed":  # published numbers on random problems come from other seeds
            _pin(content, [home for home in homes if home.labels])
        for home in homes:
            match home.path:
                case (_,):
                    content[key] = values[0] if key in _SINGLE else values
                case (_, int(at), _):
                    raw = content["blocks"][at]
                    raw[key] = _replace_block_value(raw, experiment.blocks[at], key, values)
                case (_, int(at), str(part), _):
                    raw, block = content["blocks"][at], experiment.blocks[at]
                    _set_parameter(raw, block, part, key, values, source)
            length = len(home.path)  # the setting replaces all values at and below the path
            written = {path: line for path, line in written.items() if path[:length] != home.path}
            written[home.path] = source
    return Document(content, replace(document.location, written=written))


def _find_homes(experiment: Experiment, key: str) -> Iterator[_Home]:
    """Yield the values of the experiment that a setting with this key replaces."""
    is_option = any(key in block.options for block in experiment.blocks)
    if key in _SINGLE or (key in _WHOLE and not is_option):
        yield _Home((key,), key, getattr(experiment, key) if key in ("delta", "epsilon") else ())
        return
    for number, block in enumerate(experiment.blocks):
        if key in _BLOCK:
            entries = {"mechanism": block.mechanism, "targets": block.rules}.get(key, ())
            labels: list[Scalar] = [entry.shown for entry in entries]
            if key == "neighbours":
                with suppress(SolverError):  # an invalid relation is about to be replaced
                    labels = [as_neighbours(entry).title for entry in _list_all(block.neighbours)]
            yield _Home(("blocks", number, key), key, labels, block.group)
        coordinate = key
        for part, parameters in _list_owners(block):
            if key in parameters:
                entry, parameter = getattr(block, part), parameters[key]
                given = entry.params if isinstance(entry, Entry) else entry
                default = getattr(parameter, "default", None)
                values, _ = list_values(parameter, given.get(key, default))
                labels = [each for each in map(label, values) if isinstance(each, Scalar)]
                yield _Home(("blocks", number, part, key), coordinate, labels, block.group)
                coordinate = f"{part}_{key}"


def _replace_block_value(written: _Keys, block: Block, key: str, values: _Values) -> JsonValue:
    """Return the new value of a block's key.

    If the block already lists an entry with one of the new names, that entry keeps its parameters.
    """
    if key == "replicates":
        return values[0]
    entries = {"mechanism": block.mechanism, "targets": block.rules}.get(key, ())
    pairs = list(zip(_list_all(written.get(key, "uniform")), entries, strict=False))
    chosen: _Values = []
    for value in values:
        matching = [raw for raw, entry in pairs if value in (entry.shown, entry.name)]
        chosen += [raw for raw in matching if raw not in chosen] if matching else [value]
    return chosen if key == "mechanism" or len(chosen) > 1 else chosen[0]


def _set_parameter(
    written: _Keys, block: Block, part: str, key: str, values: _Values, source: str
) -> None:
    owner = written.get(part, "uniform")
    if not isinstance(owner, dict):
        written[part] = owner = {"name": owner}
    together = next((names for names in block.zipped if key in names), None)
    if together is None:
        before = owner.get(key)
        is_axis = isinstance(before, list) or (isinstance(before, dict) and "axis" in before)
        owner[key] = {"axis": values} if is_axis or len(values) > 1 else values[0]
        return
    lists = {
        name: (holder, listed)
        for holder in (written["workload"], owner)
        for name in together
        if isinstance(holder, dict) and isinstance(listed := holder.get(name), list)
    }
    zipped = lists[key][1] if key in lists else []
    if len(lists) != len(together) or any(value not in zipped for value in values):
        raise ExperimentError(
            f"{source}: {key!r} is zipped with {[n for n in together if n != key]}; expected some "
            f"of its values {list(zipped)}, or change the file"
        )
    rows = [row for value in values for row, present in enumerate(zipped) if present == value]
    for name, (holder, listed) in lists.items():
        holder[name] = [listed[row] for row in rows]


def _list_owners(block: Block) -> list[tuple[str, Mapping[str, inspect.Parameter | None]]]:
    """Return the keys of a block that contain parameters, each with its settable parameters."""
    owners: list[tuple[str, Mapping[str, inspect.Parameter | None]]] = []
    families, rules = workloads.families(), workloads.targets.RULES
    if block.workload.name in families:
        owners.append(("workload", families[block.workload.name].params))
    if isinstance(block.targets, Entry) and block.targets.name in rules:
        owners.append(("targets", rules[block.targets.name].params))
    known = solvers.all_mechanisms()
    taken = [known[entry.name].params() for entry in block.mechanism if entry.name in known]
    common = {key: next((o[key] for o in taken if key in o), None) for key in block.options}
    return [*owners, ("options", common)]


def _pin(content: dict[str, Any], homes: Sequence[_Home]) -> None:
    """Restrict tables and claims to the labels that the changed coordinates had before the change.

    The numbers of a paper are valid only for these labels. For each changed coordinate that a table
    or claim does not name, the labels are written into ``at``; if a coordinate has several such
    labels, a table is dropped instead.
    """
    for kind in content.keys() & _COMPARED:
        kept = []
        for statement in content[kind]:
            at, axes = statement.get("at", {}), statement.get("axes", {})
            pinned: dict[str, list[Scalar]] = {}
            for home in homes:
                if home.concerns(statement) and home.coordinate not in {*at, *axes}:
                    before = pinned.get(home.coordinate, [])
                    pinned[home.coordinate] = list(dict.fromkeys([*before, *home.labels]))
            if kind == "claims" or all(len(labels) == 1 for labels in pinned.values()):
                added = {
                    name: labels if labels[1:] else labels[0] for name, labels in pinned.items()
                }
                kept.append({**statement, "at": {**at, **added}} if added else statement)
        content[kind] = kept


def _refers_to(statement: Mapping[str, Any], reference: object) -> bool:
    """Return whether a table or claim can be compared with ratios to ``reference``."""
    if statement.get("variable") not in OF_REFERENCE or "over" in statement:
        return True
    is_table = "values" in statement
    return is_table and reference in ComparisonTable.model_validate(statement).references


def _list_all(written: JsonValue) -> Sequence[JsonValue]:
    return written if isinstance(written, list | tuple) else (written,)
