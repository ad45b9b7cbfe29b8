"""Changes to an experiment from the command line: ``--set d=64,128``."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import numpy as np

import solvers
import workloads
from solvers.errors import SolverError
from solvers.problem.neighbours import as_neighbours
from sweep.errors import ExperimentError
from sweep.experiment.canonical import Scalar, label, values_of
from sweep.experiment.document import Document, KeyPath, read, scalar_list
from sweep.experiment.schema import ComparisonTable, Experiment
from sweep.experiment.variables import BUDGETS, OF_REFERENCE
from workloads.parameters import nearest

_SINGLE = ("time_limit", "simulate", "reference")
_BLOCK = ("mechanism", "targets", "neighbours", "replicates")

Settings = Sequence[str] | Mapping[str, Any]
"""``["d=64,128"]`` or ``{"d": [64, 128]}``."""


def parse(settings: Settings) -> dict[str, list[Any]]:
    """The values of each key.

    Raises
    ------
    ExperimentError
        If one has no ``=``, or its values cannot be read.
    """
    if isinstance(settings, Mapping):
        plain = {key: _plain(value) for key, value in settings.items()}
        return {key: value if isinstance(value, list) else [value] for key, value in plain.items()}
    parsed: dict[str, list[Any]] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        try:
            values = scalar_list(text)
        except ValueError as error:
            raise ExperimentError(f"--set {setting}: {error}") from error
        if not equals or not key.strip() or not values:
            raise ExperimentError(f"--set {setting or repr('')}: expected key=value[,value...]")
        parsed[key.strip()] = values
    return parsed


def _plain(value: Any) -> Any:
    """The value with numpy arrays and numbers as Python lists and numbers."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def apply(text: str, file: str, settings: Settings) -> Document:
    """The experiment of a text, with the settings replacing the written values.

    A key is ``epsilon``, ``delta``, ``keep``, ``time_limit``, ``simulate``, ``reference``,
    ``replicates``, ``mechanism``, ``targets``, ``neighbours``, a parameter of a workload or of
    targets (set in every block whose workload or targets take it), or an option that a block
    writes for all its mechanisms, ``epsilon`` too. Of zipped axes, the rows with the given
    values are kept.

    Raises
    ------
    ExperimentError
        If no block takes the key; with the nearest valid one.
    """
    document = read(text, file)
    tree, origin = document.tree, document.origin
    for key, values in parse(settings).items():
        source = f"--set {key}={','.join(map(str, values))}"
        if key in (*_SINGLE, "replicates") and len(values) != 1:
            raise ExperimentError(f"{source}: expected one value")
        try:
            _keep(tree, kept(tree, key, values))
            paths = _set(tree, key, values, source)
        except ExperimentError:
            raise
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise ExperimentError(
                f"{source}: does not fit what the file says there ({error}); 'sweep plan' without "
                "--set shows what is wrong with the file, if anything"
            ) from error
        for path in paths:
            origin = origin.moved(path, source)
    return Document(tree, origin)


def _keep(tree: dict[str, Any], kept: Mapping[str, Sequence[dict[str, Any] | None]]) -> None:
    """Replace tables and claims one by one, so that comments stay where they are."""
    for kind, statements in kept.items():
        for at in reversed(range(len(statements))):
            if statements[at] is None:
                del tree[kind][at]
            else:
                tree[kind][at] = statements[at]


def _set(tree: dict[str, Any], key: str, values: list[Any], source: str) -> list[KeyPath]:
    """Set a key of a tree; the places where that was."""
    if is_whole(tree, key):
        tree[key] = values
        return [(key,)]
    if key in _SINGLE:
        tree[key] = values[0]
        return [(key,)]
    paths: list[KeyPath] = []
    names = {*WHOLE, *_SINGLE, *_BLOCK}
    for at, block in blocks(tree):
        if key in _BLOCK:
            block[key] = _block_value(key, values, block.get(key))
            paths.append(("blocks", at, key))
            continue
        for part, owner in owners(block):
            names |= owner.keys()
            if key in owner:
                paths.append(_set_parameter(block, at, part, key, values, source))
    if not paths:
        raise ExperimentError(f"{source}: no block takes {key!r}; {nearest(key, sorted(names))}")
    return paths


def _block_value(key: str, values: list[Any], written: Any) -> Any:
    if key == "replicates":
        return values[0]
    entries = written if isinstance(written, list) else [] if written is None else [written]
    chosen: list[Any] = []
    for value in values:
        chosen += [entry for entry in entries if value in names(entry)] or [value]
    return chosen if key == "mechanism" or len(chosen) > 1 else chosen[0]


def _set_parameter(
    block: dict[str, Any], at: int, part: str, key: str, values: list[Any], source: str
) -> KeyPath:
    owner = block.get(part, "uniform")
    if not isinstance(owner, dict):
        block[part] = owner = {"name": owner}
    together = next((names for names in block.get("zip", ()) if key in names), None)
    if together is None:
        written = owner.get(key)
        axis = isinstance(written, list) or (isinstance(written, dict) and "axis" in written)
        axis = axis or len(values) > 1
        owner[key] = {"axis": values} if axis else values[0]
    else:
        _keep_rows(block, together, key, values, source)
    return ("blocks", at, part, key)


def _keep_rows(
    block: dict[str, Any], together: Sequence[str], key: str, values: list[Any], source: str
) -> None:
    holders = [holder for holder in (block["workload"], block.get("targets")) if holder]
    lists = {
        name: (holder, holder[name])
        for holder in holders
        if isinstance(holder, dict)
        for name in together
        if isinstance(holder.get(name), list)
    }
    written = lists[key][1] if key in lists else []
    missing = [value for value in values if value not in written]
    if missing or len(lists) != len(together):
        raise ExperimentError(
            f"{source}: {key!r} is zipped with {[n for n in together if n != key]}; expected some "
            f"of its values {list(written)}, or change the file"
        )
    rows = [row for value in values for row, one in enumerate(written) if one == value]
    for name, (holder, listed) in lists.items():
        holder[name] = [listed[row] for row in rows]


WHOLE = ("delta", "epsilon", "keep")
"""Keys of lists that belong to the whole experiment."""

_TABLES = ("published", "closed_form")


def kept(
    tree: Mapping[str, Any], key: str, values: Sequence[Any]
) -> dict[str, list[dict[str, Any] | None]]:
    """Tables and claims, restricted to the labels that ``key`` has before it is set to ``values``.

    None in place of those that are dropped. Seeds restrict nothing: what is compared with random
    problems is of others anyway.
    """
    statements = {kind: tree[kind] for kind in (*_TABLES, "claims") if tree.get(kind)}
    if key == "reference":
        return _of_reference(tree, statements, values[0])
    if key == "seed":
        return {}
    return {
        kind: [_narrowed(kind, one, _labels(tree, key, one)) for one in listed]
        for kind, listed in statements.items()
    }


def blocks(tree: Mapping[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """The blocks, each with its number."""
    listed = tree.get("blocks")
    numbered = enumerate(listed if isinstance(listed, list) else [])
    return [(at, block) for at, block in numbered if isinstance(block, dict)]


def owners(block: Mapping[str, Any]) -> list[tuple[str, Mapping[str, inspect.Parameter | None]]]:
    """The parts of a block in which a parameter may be set, each with its parameters."""
    found: list[tuple[str, Mapping[str, inspect.Parameter | None]]] = []
    families, rules = workloads.families(), workloads.targets.rules()
    name = _name(block.get("workload"))
    if name in families:
        found.append(("workload", families[name].params))
    targets = block.get("targets", "uniform")
    if not isinstance(targets, list) and _name(targets) in rules:
        found.append(("targets", rules[_name(targets)].params))
    return [*found, ("options", _option_parameters(block))]


def is_whole(tree: Mapping[str, Any], key: str) -> bool:
    """Whether the key belongs to the whole experiment, and is no option of a block."""
    return key in WHOLE and not any(key in _options(block) for _, block in blocks(tree))


def names(entry: Any) -> list[Any]:
    """The label and the name of targets or a mechanism."""
    if not isinstance(entry, dict):
        return [entry]
    name = entry.get("name")
    preset = f"{name} ({entry.get('preset')})"
    return [entry.get("label", preset if "preset" in entry else name), name]


def _narrowed(
    kind: str, statement: dict[str, Any], known: Mapping[str, list[Scalar]]
) -> dict[str, Any] | None:
    """A table or a claim with the labels that it is about, along coordinates it does not name.

    A table that may be about several labels is about none: it does not say at which it is.
    """
    pinned: dict[str, Scalar | list[Scalar]] = {}
    for coordinate, found in known.items():
        if coordinate in statement.get("at", {}) or coordinate in statement.get("axes", {}):
            continue
        over = statement.get("over") if coordinate == "mechanism" else None
        labels = [label for label in found if label != over]
        if len(labels) > 1 and kind in _TABLES:
            return None
        if labels:
            pinned[coordinate] = labels if len(labels) > 1 else labels[0]
    if not pinned or "unjudged" in statement:
        return statement
    narrowed, at = statement.copy(), statement.get("at", {}).copy()  # with the file's comments
    at.update(pinned)
    narrowed["at"] = at
    return narrowed


def _of_reference(
    tree: Mapping[str, Any], statements: Mapping[str, list[Any]], reference: Any
) -> dict[str, list[dict[str, Any] | None]]:
    """Compare ratios to another reference with nothing, unless a table's ratios are to it."""
    before = tree.get("reference", Experiment.model_fields["reference"].default)
    if reference == before:
        return {}
    tables = {
        kind: [table if _stays(table, reference) else None for table in statements[kind]]
        for kind in _TABLES
        if kind in statements
    }
    if "claims" not in statements or any(t and _is_ratio(t) for t in chain(*tables.values())):
        return tables
    reason = f"it is about ratios to {before}; here they are to {reference}"
    claims = [
        {key: claim[key] for key in ("text", "source", "group") if key in claim}
        | {"unjudged": reason}
        if _is_ratio(claim) and "over" not in claim
        else claim
        for claim in statements["claims"]
    ]
    return {**tables, "claims": claims}


def _stays(table: Mapping[str, Any], reference: Any) -> bool:
    return not _is_ratio(table) or reference in ComparisonTable.model_validate(table).references


def _is_ratio(statement: Mapping[str, Any]) -> bool:
    return statement.get("variable") in OF_REFERENCE


def _options(block: Mapping[str, Any]) -> dict[str, Any]:
    """The options that a block writes for all its mechanisms."""
    options = block.get("options")
    return options if isinstance(options, dict) else {}


def _option_parameters(block: Mapping[str, Any]) -> dict[str, inspect.Parameter | None]:
    """The parameters of these options, in the first mechanism that has them."""
    known = solvers.all_mechanisms()
    named = map(_name, _listed(block.get("mechanism")))
    taken = [known[name].options for name in named if name in known]
    return {
        key: next((options[key] for options in taken if key in options), None)
        for key in _options(block)
    }


def _listed(written: Any) -> Sequence[Any]:
    return written if isinstance(written, list | tuple) else [written]


def _name(entry: Any) -> Any:
    return entry.get("name") if isinstance(entry, dict) else entry


def _labels(
    tree: Mapping[str, Any], key: str, statement: Mapping[str, Any]
) -> dict[str, list[Scalar]]:
    """The labels of the coordinates that a key makes, over all blocks of a statement's group."""
    if is_whole(tree, key):
        if key not in BUDGETS.get(statement.get("variable", ""), ()):
            return {}
        written = tree.get(key, Experiment.model_fields[key].default)
        return {key: [label(value) for value in _listed(written)]}
    found: dict[str, list[Scalar]] = {}
    group = statement.get("group")
    for _, block in blocks(tree):
        if group in (None, block.get("group", _name(block.get("workload")))):
            for coordinate, labels in _of_block(block, key):
                here = [one for one in labels if isinstance(one, Scalar)]
                found[coordinate] = list(dict.fromkeys([*found.get(coordinate, ()), *here]))
    return found


def _of_block(block: Mapping[str, Any], key: str) -> Iterator[tuple[str, list[Scalar]]]:
    entries = _listed(block.get(key))
    if key == "mechanism":
        yield key, [names(entry)[0] for entry in entries]
    elif key == "targets":
        yield key, [names(entry or "uniform")[0] for entry in entries]
    elif key == "neighbours":
        with suppress(SolverError):  # one that is wrong is about to be replaced
            yield key, [as_neighbours(entry or "add-remove").title for entry in entries]
    coordinate = key
    for part, owner in owners(block):
        if key in owner:
            given = block.get(part)
            default = getattr(owner[key], "default", None)
            value = given.get(key, default) if isinstance(given, Mapping) else default
            yield coordinate, [label(one) for one in values_of(owner[key], value)[0]]
            coordinate = f"{part}_{key}"
