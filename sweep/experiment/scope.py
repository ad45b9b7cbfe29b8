"""What tables and claims speak of: labels in the file, also after ``--set`` has replaced them."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import solvers
import workloads
from solvers.errors import SolverError
from solvers.neighbours import as_neighbours
from sweep.experiment.canonical import Scalar
from sweep.experiment.labels import label, values_of
from sweep.experiment.published import ComparisonTable
from sweep.experiment.schema import Experiment
from sweep.experiment.variables import BUDGETS, OF_REFERENCE

WHOLE = ("delta", "epsilon", "keep")
"""Keys of lists that belong to the whole experiment."""

_TABLES = ("published", "closed_form")


def keep(tree: Mapping[str, Any], key: str, values: Sequence[Any]) -> None:
    """Restrict tables and claims to the labels that ``key`` has before it is set to ``values``.

    But for seeds: what is compared with random problems is of others anyway.
    """
    if key == "reference":
        _keep_reference(tree, values[0])
    if key in ("reference", "seed"):
        return
    for kind in (*_TABLES, "claims"):
        statements = tree.get(kind) or []
        for at in reversed(range(len(statements))):
            if "unjudged" in statements[at]:
                continue
            pinned = _pinned(statements[at], _labels(tree, key, statements[at]))
            if kind == "claims":
                statements[at].setdefault("at", {}).update(pinned)
            elif any(isinstance(labels, list) for labels in pinned.values()):
                del statements[at]  # it does not say at which of the labels it is
            else:
                statements[at].setdefault("at", {}).update(pinned)


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


def _pinned(
    statement: Mapping[str, Any], known: Mapping[str, list[Scalar]]
) -> dict[str, Scalar | list[Scalar]]:
    """The labels that a table or a claim is about, along coordinates that it does not name."""
    pinned: dict[str, Scalar | list[Scalar]] = {}
    for coordinate, labels in known.items():
        if coordinate in statement.get("at", {}) or coordinate in statement.get("axes", {}):
            continue
        over = statement.get("over") if coordinate == "mechanism" else None
        listed = [one for one in labels if one != over]
        if listed:
            pinned[coordinate] = listed if len(listed) > 1 else listed[0]
    return pinned


def _keep_reference(tree: Mapping[str, Any], reference: Any) -> None:
    """Compare ratios to another reference with nothing, unless a table's ratios are to it."""
    before = tree.get("reference", Experiment.model_fields["reference"].default)
    if reference == before:
        return
    known = False
    for kind in _TABLES:
        tables = tree.get(kind) or []
        for at in reversed(range(len(tables))):
            if tables[at].get("variable") not in OF_REFERENCE:
                continue
            if reference in ComparisonTable.model_validate(_plain(tables[at])).references:
                known = True
            else:
                del tables[at]
    for claim in () if known else tree.get("claims") or ():
        if claim.get("variable") in OF_REFERENCE and "over" not in claim:
            for key in claim.keys() - {"text", "source", "group"}:
                del claim[key]
            claim["unjudged"] = f"it is about ratios to {before}; here they are to {reference}"


def _plain(value: Any) -> Any:
    """The content without YAML's own types."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


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
