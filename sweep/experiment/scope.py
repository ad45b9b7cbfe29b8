"""What tables and claims speak of: labels in the file, also after ``--set`` has replaced them."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import solvers
import workloads
from solvers.errors import SolverError
from solvers.problem.neighbours import as_neighbours
from sweep.experiment.canonical import Scalar
from sweep.experiment.labels import label, values_of
from sweep.experiment.published import ComparisonTable
from sweep.experiment.schema import Experiment
from sweep.experiment.variables import BUDGETS, OF_REFERENCE

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
