"""Make the grid of one block: check names, types and values, and fill in defaults."""

import inspect
import re
import typing
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

import solvers
import workloads
from solvers.errors import SolverError
from solvers.mechanism import Mechanism
from solvers.problem.neighbours import ADD_REMOVE, as_neighbours
from sweep.experiment.canonical import Spec, label, rounded, values_of
from sweep.experiment.document import Place
from sweep.experiment.files import as_file
from sweep.experiment.schema import Block
from sweep.experiment.variables import RESERVED
from sweep.grid.cells import REPLICATE, Cell, Cells
from sweep.grid.grids import Axis, Grid, check_points
from workloads import TargetsError, WorkloadError, conditions
from workloads.family import Kind
from workloads.parameters import Recipe, alternatives, bind, nearest

Parameters = Mapping[str, inspect.Parameter]
_Recipe = TypeVar("_Recipe", bound=Recipe)

_Choice = dict[tuple[str, str], Any]
"""The values at one point of an axis, or those that all points share; keys are (part, name).

The part is ``workload``, ``targets`` or ``options`` for a parameter's value, and ``label`` for a
coordinate's label. The key ``("targets", "")`` has the name of the targets rule, and the key
``("neighbours", "")`` has the neighbour relation."""

_Entries = Sequence[tuple[Place, Spec, type[Mechanism]]]
"""The available mechanisms of a block, as tuples (location of the entry, entry, mechanism)."""

_Written = Mapping[str, tuple[Sequence[Any], bool]]
"""For every parameter in the file: its values in canonical form, and whether they form an axis."""


@contextmanager
def errors_at(place: Place, names: Iterable[str] = ()) -> Iterator[None]:
    """Turn errors of workloads and solvers into experiment errors that name a location in the file.

    The location is that of the first parameter in ``names`` that is written inside ``place`` and
    that the message mentions. If there is no such parameter, the location is ``place``.
    """
    try:
        yield
    except (WorkloadError, TargetsError, SolverError) as error:
        text = str(error).partition(":")[2]
        named = (place / name for name in names if re.search(rf"\b{re.escape(name)}\b", text))
        blamed = next((candidate for candidate in named if candidate.is_written), place)
        raise blamed.error(str(error)) from error.__cause__


def _checked(described: str, known: Parameters, given: Mapping[str, Any], place: Place) -> _Written:
    """Check the parameters in the file against their types, and make their values canonical.

    In error messages, ``described`` is the owner of the parameters, such as ``workload 'prefix'``.
    ``known`` contains all parameters of the owner, and ``given`` those in the file.
    """
    written: dict[str, tuple[Sequence[Any], bool]] = {}
    for name, value in given.items():
        here, parameter = place / name, known.get(name)
        if parameter is None:
            raise here.error(f"{described} does not take {name!r}; {nearest(name, known)}")
        values, is_axis = values_of(parameter, value)
        if not values:
            raise here.error("this axis has no values; expected at least one")
        with errors_at(here):
            for item in values:
                bind(described, {name: parameter}, {name: item})
            written[name] = [normalised(item, parameter.annotation) for item in values], is_axis
    return written


def _complete(
    part: str, role: str, recipes: Mapping[str, _Recipe], spec: Spec, place: Place
) -> tuple[_Recipe, _Choice, _Written]:
    """Return the recipe that ``spec`` names, all its parameters, and the parameters in the file.

    The second item has one value for every parameter, defaults included; if a parameter is an axis,
    this is the axis's first value. The keys of the second item are tuples (``part``, name).
    ``role`` is the word for the recipe in error messages.
    """
    if (recipe := recipes.get(spec.name)) is None:
        hint = nearest(spec.name, recipes) + workloads.family.plugged().hint
        raise (place / "name").error(f"no {role} is called {spec.name!r}; {hint}")
    described, known = f"{role} {spec.name!r}", recipe.params
    written = _checked(described, known, spec.params, place)
    with errors_at(place):
        first = {name: values[0] for name, (values, _) in written.items()}
        bound = bind(described, known, first)
        choice = {(part, n): normalised(v, known[n].annotation) for n, v in bound.items()}
    return recipe, choice, written


def normalised(value: Any, expected: Any) -> Any:
    """Return the canonical form of a value that has the type ``expected``.

    Floats are rounded to 12 significant digits, tuples become lists, and 1 becomes 1.0 if the type
    accepts floats but no integers. A text that names a file becomes a `File`, which is identified
    by its content.
    """
    known = alternatives(expected)
    if isinstance(value, Mapping):
        return {name: normalised(item, _inside(known, dict)) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [normalised(item, _inside(known, list)) for item in value]
    if isinstance(value, str):
        return as_file(value, known)
    whole = isinstance(value, int) and (int in known or float not in known)
    if whole or isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return rounded(value)


def _inside(alternatives: tuple[Any, ...], kind: type) -> Any:
    """Return the item type of the first list among some types, or the value type of the first dict.

    ``kind`` is ``list`` or ``dict``. If no type in ``alternatives`` is of this kind, return Any.
    """
    inner = [typing.get_args(a) for a in alternatives if typing.get_origin(a) is kind]
    return inner[0][-1] if inner else Any


def available(entry: Spec) -> bool:
    """Return whether a mechanism entry is used.

    An entry with ``when: available`` is left out if its mechanism or its preset does not exist.
    """
    known = solvers.all_mechanisms()
    has_it = entry.name in known and (entry.preset or "") in ("", *known[entry.name].presets)
    return has_it or entry.when != "available"


def _resolved(mechanism: Mechanism, kind: Kind, shown: str | None = None) -> Spec:
    """Return a `Spec` of a mechanism that has the label ``shown`` and a value for every option."""
    options, known = mechanism.options, mechanism.params(kind)
    params = {name: normalised(options[name], known[name].annotation) for name in known}
    return Spec(mechanism.name, params, shown)


def _mechanisms(
    entries: _Entries, common: Mapping[str, Any], kind: Kind
) -> dict[str, tuple[Spec, Spec]]:
    """Return the mechanisms of a block by label.

    For each label there is a pair: the mechanism that the entry names, and the mechanism that is
    run instead if all targets are equal. Usually both are the same. An entry with several values
    for an option makes several mechanisms. ``common`` contains the options that the block sets for
    all its mechanisms.
    """
    found: dict[str, tuple[Spec, Spec]] = {}
    for here, entry, mechanism in entries:
        with errors_at(here / "preset"):
            mechanism.make(entry.preset, {}, kind)
        known = mechanism.params(kind)
        axes = _checked(f"mechanism {mechanism.name!r}", known, entry.params, here)
        check_points({name: len(values) for name, (values, _) in axes.items()}, here)
        for values in product(*(values for values, _ in axes.values())):
            given = dict(zip(axes, values, strict=True))
            function = str(given.get("function", "")) if mechanism.runs_code else ""
            own_label = entry.label or function or entry.shown
            listed = [n for n in axes if axes[n][1] and (n != "function" or entry.label)]
            suffix = ", ".join(f"{n}={label(given[n])}" for n in listed)
            shown = f"{own_label} ({suffix})" if suffix else own_label
            if shown in found:
                raise here.error(
                    f"two mechanisms are labelled {shown!r}; label one of them differently"
                )
            with errors_at(here, known):
                made = mechanism.make(entry.preset, {**common, **given}, kind)
                spec = _resolved(made, kind, shown)
            found[shown] = spec, spec
            if mechanism.same_when_uniform is not None:
                other = solvers.mechanism.find(mechanism.same_when_uniform)
                shared = {n: v for n, v in spec.params.items() if n in other.params(kind)}
                # options that the other mechanism does not have must be at their defaults
                if made.first_changed(spec.params.keys() - shared.keys()) is None:
                    found[shown] = spec, _resolved(other.make(None, shared, kind), kind)
    return found


def multiplied(block: Block, place: Place, simulate: int) -> Grid:
    """Return the grid of a block; its cells have labels for all coordinates, companions included.

    Raises
    ------
    ExperimentError
        If a name or a value is wrong, axes cannot be zipped, or there are too many points.
    """
    families, named = workloads.families(), block.workload.name
    family, complete, written = _complete(
        "workload", "workload", families, block.workload, place / "workload"
    )
    entries: list[tuple[Place, Spec, type[Mechanism]]] = []
    for at, entry in enumerate(block.mechanism):
        if available(entry):
            here = place / "mechanism" / at
            with errors_at(here / "name"):
                entries.append((here, entry, solvers.mechanism.find(entry.name, family.kind)))
    fixed, listed = _choices(block, family.kind, entries, written, place)
    fixed |= complete
    for at, names in enumerate(block.zipped):
        _zip(names, listed, place / "zip" / at)
    axes: list[Axis] = []
    for name, (here, choices) in listed.items():
        labels = {
            one: tuple(choice["label", one] for choice in choices)
            for one in _of(choices[0], "label")
        }
        axes.append(Axis(name, labels.pop(name), labels))
        twice = [one for one, count in Counter(axes[-1].values).items() if count > 1]
        if twice:
            hint = "label one of them" if name == "targets" else "write each value once"
            raise here.error(f"axis {name!r} holds {twice[0]!r} twice; {hint}")
    if block.replicates > 1:
        axes.append(Axis(REPLICATE, range(block.replicates)))
    scalars = _of(fixed, "label")
    condition = None if block.where is None else conditions.parse(block.where)
    cells: list[Cell] = []
    replicates: list[NDArray[np.int32]] = []
    chosen: dict[str, dict[str, tuple[Spec, Spec]]] = {}
    for row in product(*(choices for _, choices in listed.values())):
        choice = {key: value for part in (fixed, *row) for key, value in part.items()}
        options, params = _of(choice, "options"), _of(choice, "targets")
        if str(options) not in chosen:
            chosen[str(options)] = found = _mechanisms(entries, options, family.kind)
            lengths = {axis.name: len(axis.values) for axis in axes}
            check_points({**lengths, "mechanism": max(1, len(found))}, place)
        rule = workloads.targets.RULES[params.pop("")]
        workload, targets = Spec(named, _of(choice, "workload")), Spec(rule.name, params)
        for shown, (mechanism, twin) in chosen[str(options)].items():
            coords = {**_of(choice, "label"), "mechanism": shown}
            kept = np.arange(block.replicates, dtype=np.int32)
            if condition is not None:
                points = ({**coords, "group": block.group, REPLICATE: n} for n in kept.tolist())
                with errors_at(place / "where"):
                    kept = kept[[condition.holds(point) for point in points]]
            if len(kept):
                replicates.append(kept)
                cells.append(
                    Cell(
                        block.group,
                        coords,
                        workload,
                        targets,
                        mechanism,
                        solved=twin if rule.uniform else mechanism,
                        simulate=simulate,
                        neighbours=choice.get(("neighbours", ""), ADD_REMOVE),
                        place=place,
                    )
                )
    axes.append(Axis("mechanism", tuple(next(iter(chosen.values())))))
    number = np.repeat(np.arange(len(cells)), [len(kept) for kept in replicates])
    laid = Cells(cells, number, np.concatenate([[], *replicates]))
    return Grid(block.group, tuple(axes), scalars, laid)


def _of(choice: _Choice, part: str) -> dict[str, Any]:
    """Return the values of one part of a choice, by name."""
    return {name: value for (at, name), value in choice.items() if at == part}


def _choices(
    block: Block, kind: Kind, entries: _Entries, written: _Written, place: Place
) -> tuple[_Choice, dict[str, tuple[Place, list[_Choice]]]]:
    """Return the values that all points of a block share, and the block's axes except the last two.

    The last two axes are ``replicate`` and ``mechanism``. Each axis has its location in the file
    and a `_Choice` for each of its points. ``written`` contains the workload's parameters in the
    file.
    """
    fixed: _Choice = {("label", "workload"): block.workload.name}
    found: dict[str, tuple[Place, list[_Choice], bool]] = {}

    def add(part: str, written: _Written) -> None:
        for name, (values, is_axis) in written.items():
            here = place / part / name
            if name in RESERVED:
                raise here.error(
                    f"{name!r} is a parameter of the {part} here and the name of something else in "
                    "the dataset; give the parameter another name"
                )
            coordinate = f"{part}_{name}" if name in found else name
            choices = [{("label", coordinate): label(v), (part, name): v} for v in values]
            found[coordinate] = here, choices, is_axis

    add("workload", written)
    here, several = place / "targets", isinstance(block.targets, tuple)
    choices = []
    for at, entry in enumerate(block.rules):
        there = here / at if several else here
        rule, choice, written = _complete(
            "targets", "targets rule", workloads.targets.RULES, entry, there
        )
        choices.append(choice | {("targets", ""): rule.name, ("label", "targets"): entry.shown})
        for name in (name for name, (_, is_axis) in written.items() if several and is_axis):
            raise (there / name).error(
                f"{name!r} is an axis, but the block lists several targets; write one entry with "
                "its own label for each value, or make these the only targets of the block"
            )
    found["targets"] = here, choices, several
    if not several:
        add("targets", written)
    if "neighbours" in block.model_fields_set:
        here, several = place / "neighbours", isinstance(block.neighbours, list)
        with errors_at(here):
            listed = block.neighbours if several else [block.neighbours]
            relations = [as_neighbours(relation) for relation in listed]
        if not relations:
            raise here.error("this axis has no values; expected at least one")
        if kind == "graph":
            raise here.error(
                "neighbours on a query graph; its own edges say which answers are adjacent: leave "
                "neighbours out"
            )
        labelled = [{("label", "neighbours"): r.title, ("neighbours", ""): r} for r in relations]
        found["neighbours"] = here, labelled, several
    options: _Written = {}
    for _, _, mechanism in entries if block.options else ():
        described, known = f"mechanism {mechanism.name!r}", mechanism.params(kind)
        options = _checked(described, known, block.options, place / "options")
    add("options", options)
    for _, choices, _ in (one for one in found.values() if not one[2]):
        fixed.update(choices[0])
    return fixed, {
        name: (here, listed) for name, (here, listed, several) in found.items() if several
    }


def _zip(names: Sequence[str], axes: dict[str, tuple[Place, list[_Choice]]], place: Place) -> None:
    """Merge the axes in ``names`` into one axis, which has the name of the first of them."""
    for name in names:
        if name not in axes:
            raise place.error(f"{name!r} is not an axis, or zipped already; {nearest(name, axes)}")
    sizes = {name: len(axes[name][1]) for name in names}
    if len(sizes) < 2 or len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} has {size}" for name, size in sizes.items())
        raise place.error(f"zip needs two or more axes of equal length; here {listed}")
    for name in names[1:]:
        for choice, further in zip(axes[names[0]][1], axes.pop(name)[1], strict=True):
            choice.update(further)
