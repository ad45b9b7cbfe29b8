"""Expand an experiment into grids: expand its blocks, merge them by group, and check the cells."""

import threading
import warnings
from collections import ChainMap
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future
from functools import reduce
from operator import truediv

import solvers
import workloads
from sweep.experiment.canonical import Scalar, Spec
from sweep.experiment.document import Place
from sweep.experiment.schema import SIZES, Claim, ComparisonTable, Entry, Experiment, Figure
from sweep.grid.axes import errors_at, expand_block
from sweep.grid.cells import REPLICATE
from sweep.grid.grids import Grid, list_labels, merge_blocks
from workloads import Workload, user_code
from workloads.family import AnyWorkload
from workloads.parameters import nearest


def expand(experiment: Experiment, *, allow_code: bool = False) -> tuple[Grid, ...]:
    """Check every cell of an experiment, and return its grids, one for each group.

    Every workload and its targets are built once (random ones for the first replicate only), so
    that a value that is out of range is found before anything runs.

    Parameters
    ----------
    allow_code : bool
        Whether functions that the experiment names may be imported and called.

    Raises
    ------
    ExperimentError
        If a name, a value or the layout is wrong, or the experiment names a function and
        ``allow_code`` is false; the message names file, line and key.
    """
    if not allow_code:
        refuse_code(experiment)
    grids = lay_out(experiment)
    _check_cells(grids)
    place = experiment.place / "reference"
    labels = list(dict.fromkeys(str(label) for grid in grids for label in grid.axes[-1].values))
    unused = solvers.all_mechanisms().keys() - {
        cell.mechanism.name for grid in grids for cell in grid.cells.used
    }
    if experiment.reference not in (*labels, *unused) and place.is_written:
        hint = nearest(experiment.reference, [*labels, *sorted(unused)])
        raise place.error(f"no mechanism is labelled {experiment.reference!r}; {hint}")
    for key in ("figures", "published", "closed_form", "claims"):
        for number, statement in enumerate(getattr(experiment, key)):
            _check_statement(statement, experiment.place / key / number, experiment, grids)
    return grids


def lay_out(experiment: Experiment) -> tuple[Grid, ...]:
    """Return the grids of an experiment without building workloads or calling users' functions.

    Raises
    ------
    ExperimentError
        If a name, a type or the layout is wrong; the message names file, line and key.
    """
    seen: dict[str, str] = {}
    groups: dict[str, tuple[Place, list[Grid]]] = {}
    for number, block in enumerate(experiment.blocks):
        place, group = experiment.place / "blocks" / number, block.group
        if (other := seen.setdefault(group.casefold(), group)) != group:
            raise (place / "group").error(
                f"groups {other!r} and {group!r} differ only in case; rename one"
            )
        part = expand_block(block, place, experiment.simulate)
        groups.setdefault(group, (place, []))[1].append(part)
    grids = tuple(merge_blocks(parts, place) for place, parts in groups.values())
    axis = experiment.warm_start
    axes = sorted({a.name for grid in grids for a in grid.axes} - {"mechanism", REPLICATE})
    if axis is not None and axis not in axes:
        raise (experiment.place / "warm_start").error(
            f"no grid has an axis {axis!r} to warm-start along; {nearest(axis, axes)}"
        )
    return grids


def refuse_code(experiment: Experiment) -> None:
    """Raise an error if an experiment names a user's function.

    Raises
    ------
    ExperimentError
        If the experiment names a function; the message names file, line and key.
    """
    for place, role, entry in find_code_entries(experiment):
        raise (place / "function").error(
            f"{role} {entry.name!r} calls {entry.params.get('function')}, code that may do "
            "anything; if you trust it, pass --allow-code (in Python allow_code=True)"
        )


def find_code_entries(experiment: Experiment) -> Iterator[tuple[Place, str, Entry]]:
    """Yield the workloads and mechanisms that call a user's function.

    Each item has the entry's location, its role (``"workload"`` or ``"mechanism"``) and the entry
    itself.
    """
    families, mechanisms = workloads.families(), solvers.all_mechanisms()
    for position, block in enumerate(experiment.blocks):
        place, name = experiment.place / "blocks" / position, block.workload.name
        if name in families and families[name].runs_code:
            yield place / "workload", "workload", block.workload
        for number, entry in enumerate(block.mechanism):
            if entry.name in mechanisms and mechanisms[entry.name].runs_code:
                yield place / "mechanism" / number, "mechanism", entry


def _check_cells(grids: Sequence[Grid]) -> None:
    """Build every workload and its targets for the first replicate, and import users' functions.

    Each workload, targets vector and mechanism function is checked once. Without this check, an
    error would occur on the workers, cell by cell.
    """
    mechanisms, checked = solvers.all_mechanisms(), set[str]()
    built: tuple[str, AnyWorkload | None] = "", None
    for cell in (cell for grid in grids for cell in grid.cells.used):
        name = str(cell.mechanism.params.get("function"))
        if mechanisms[cell.mechanism.name].runs_code and name not in checked:
            with errors_at(cell.place / "mechanism"):
                user_code.load(f"mechanism {cell.mechanism.name!r}", name)
            checked.add(name)
        key, problem = cell.key("workload", 0), cell.key("problem", 0)
        if problem in checked:
            continue
        if built[0] != key:
            with errors_at(cell.place / "workload"):
                built = key, build_workload(cell.workload)
        if built[1] is None:
            continue
        if isinstance(built[1], Workload):
            with errors_at(cell.place / "neighbours"):
                cell.neighbours.check(built[1].d)
        with errors_at(cell.place / "targets"):
            workloads.targets.make(cell.targets.name, built[1], **cell.targets.params)
        checked.add(problem)


LONGEST_CALL_SECONDS = 20.0
"""Seconds after which a user's function is no longer waited for.

Functions that build a matrix or read a file take less; a command that says nothing for longer seems
to hang.
"""


def build_workload(spec: Spec) -> AnyWorkload | None:
    """Build the workload that ``spec`` names; return None if a user's function takes too long.

    Such a function cannot be stopped; it runs on in a thread, which ends with the process.

    Raises
    ------
    WorkloadError
        If the workload cannot be made.

    Warns
    -----
    UserWarning
        If the function takes too long.
    """
    if not workloads.families()[spec.name].runs_code:
        return workloads.make(spec.name, **spec.params)
    made = Future[AnyWorkload]()

    def make() -> None:
        try:
            made.set_result(workloads.make(spec.name, **spec.params))
        except BaseException as error:
            made.set_exception(error)

    threading.Thread(target=make, daemon=True).start()
    try:
        return made.result(LONGEST_CALL_SECONDS)
    except TimeoutError:
        warnings.warn(
            f"workload {spec.name!r} with {spec.params} was not made within "
            f"{LONGEST_CALL_SECONDS:g} s: it is neither checked nor estimated before it runs",
            stacklevel=2,
        )
        return None


def _check_statement(
    statement: Figure | ComparisonTable | Claim,
    place: Place,
    experiment: Experiment,
    grids: Sequence[Grid],
) -> None:
    """Refuse a figure, table or claim that names an unknown group, coordinate or label.

    If ``--set`` has changed the experiment, labels are not checked: tables and claims name the
    paper's sizes, some of which ``--set`` may have removed.
    """
    group, groups = statement.group, {grid.group: list_labels(experiment, grid) for grid in grids}
    settings = dict.fromkeys(where for where in place.written.values() if where.startswith("--set"))
    if isinstance(statement, Claim) and statement.unjudged:
        return
    if group is None and len(groups) > 1 and not isinstance(statement, Figure):
        raise place.error(f"needs 'group', since there are several: {', '.join(groups)}")
    if group not in (None, *groups):
        hint = nearest(str(group), sorted(groups))
        raise (place / "group").error(f"no group is called {group!r}; {hint}")
    labels_of = ChainMap(*([groups[group]] if group else groups.values()))
    for path, axis, labels in _find_named(statement):
        here = reduce(truediv, path, place)
        if axis not in labels_of:
            after = " ".join([" after", *settings]) if settings else ""
            hint = nearest(axis, sorted(labels_of))
            raise here.error(f"there is no coordinate {axis!r}{after}; {hint}")
        for label in () if settings else labels:
            if label not in labels_of[axis]:
                hint = nearest(str(label), [str(each) for each in labels_of[axis]])
                raise here.error(f"{axis} is never {label!r}; {hint}")


def _find_named(
    statement: Figure | ComparisonTable | Claim,
) -> Iterator[tuple[tuple[str, ...], str, Collection[Scalar]]]:
    """Yield each coordinate that a statement names, with the keys that lead to it and its labels.

    The items are tuples (keys, coordinate, labels); the labels are empty if the statement has none.
    """
    for names in getattr(statement, "same_as", {}).items():
        yield ("same_as",), "mechanism", names
    for key in ("axes", "at"):
        for axis, labels in getattr(statement, key, {}).items():
            yield (key, axis), axis, labels if isinstance(labels, tuple) else (labels,)
    if (over := getattr(statement, "over", None)) is not None:
        yield ("over",), "mechanism", (over,)
    for key in ("along", "x", "hue", "panels"):
        axis = getattr(statement, key, None)
        if axis is not None and not (key == "x" and axis in SIZES):
            yield (key,), axis, ()
