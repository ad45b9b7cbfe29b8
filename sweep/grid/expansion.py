"""Expand an experiment into grids: expand its blocks, merge them by group, and check the cells."""

import threading
import warnings
from collections import ChainMap
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future

import solvers
import workloads
from sweep.experiment.canonical import Scalar, Spec
from sweep.experiment.document import Location
from sweep.experiment.schema import SIZES, Claim, Entry, Experiment, Figure, Statement
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
    location = experiment.location / "reference"
    labels = list(dict.fromkeys(str(label) for grid in grids for label in grid.axes[-1].values))
    unused = solvers.all_mechanisms().keys() - {
        cell.mechanism.name for grid in grids for cell in grid.cells.used
    }
    if experiment.reference not in (*labels, *unused) and location.is_written:
        hint = nearest(experiment.reference, [*labels, *sorted(unused)])
        raise location.error(f"no mechanism is labelled {experiment.reference!r}; {hint}")
    groups = {grid.group: list_labels(experiment, grid) for grid in grids}
    for key in ("figures", "published", "closed_form", "claims"):
        for number, statement in enumerate(getattr(experiment, key)):
            _check_statement(statement, experiment.location / key / number, groups)
    return grids


def lay_out(experiment: Experiment) -> tuple[Grid, ...]:
    """Return the grids of an experiment without building workloads or calling users' functions.

    Raises
    ------
    ExperimentError
        If a name, a type or the layout is wrong; the message names file, line and key.
    """
    seen: dict[str, str] = {}
    groups: dict[str, tuple[Location, list[Grid]]] = {}
    for number, block in enumerate(experiment.blocks):
        location, group = experiment.location / "blocks" / number, block.group
        if (other := seen.setdefault(group.casefold(), group)) != group:
            raise (location / "group").error(
                f"groups {other!r} and {group!r} differ only in case; rename one"
            )
        part = expand_block(block, location, experiment.simulate)
        groups.setdefault(group, (location, []))[1].append(part)
    grids = tuple(merge_blocks(parts, location) for location, parts in groups.values())
    axis = experiment.warm_start
    axes = sorted({a.name for grid in grids for a in grid.axes} - {"mechanism", REPLICATE})
    if axis is not None and axis not in axes:
        raise (experiment.location / "warm_start").error(
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
    for location, role, entry in find_code_entries(experiment):
        raise (location / "function").error(
            f"{role} {entry.name!r} calls {entry.params.get('function')}, code that may do "
            "anything; if you trust it, pass --allow-code (in Python allow_code=True)"
        )


def find_code_entries(experiment: Experiment) -> Iterator[tuple[Location, str, Entry]]:
    """Yield the workloads and mechanisms that call a user's function.

    Each item has the entry's location, its role (``"workload"`` or ``"mechanism"``) and the entry
    itself.
    """
    families, mechanisms = workloads.families(), solvers.all_mechanisms()
    for position, block in enumerate(experiment.blocks):
        location, name = experiment.location / "blocks" / position, block.workload.name
        if name in families and families[name].runs_code:
            yield location / "workload", "workload", block.workload
        for number, entry in enumerate(block.mechanism):
            if entry.name in mechanisms and mechanisms[entry.name].runs_code:
                yield location / "mechanism" / number, "mechanism", entry


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
            with errors_at(cell.location / "mechanism"):
                user_code.load(f"mechanism {cell.mechanism.name!r}", name)
            checked.add(name)
        key, problem = cell.key("workload", 0), cell.key("problem", 0)
        if problem in checked:
            continue
        if built[0] != key:
            with errors_at(cell.location / "workload"):
                built = key, build_workload(cell.workload)
        if built[1] is None:
            continue
        if isinstance(built[1], Workload):
            with errors_at(cell.location / "neighbours"):
                cell.neighbours.check(built[1].d)
        with errors_at(cell.location / "targets"):
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
    statement: Statement, location: Location, groups: Mapping[str, Mapping[str, Sequence[Scalar]]]
) -> None:
    """Refuse a figure, table or claim that names an unknown group, coordinate or label.

    ``groups`` has the labels of all coordinates of every group. If ``--set`` has changed the
    experiment, labels are not checked: tables and claims name the paper's sizes, some of which
    ``--set`` may have removed.
    """
    group, written = statement.group, dict.fromkeys(location.written.values())
    settings = [where for where in written if where.startswith("--set")]
    if isinstance(statement, Claim) and statement.unjudged:
        return
    if group is None and len(groups) > 1 and not isinstance(statement, Figure):
        raise location.error(f"needs 'group', since there are several: {', '.join(groups)}")
    if group not in (None, *groups):
        hint = nearest(str(group), sorted(groups))
        raise (location / "group").error(f"no group is called {group!r}; {hint}")
    labels_of = ChainMap(*([groups[group]] if group else groups.values()))
    for here, axis, labels in _find_named(statement, location):
        if axis not in labels_of:
            after = " ".join([" after", *settings]) if settings else ""
            hint = nearest(axis, sorted(labels_of))
            raise here.error(f"there is no coordinate {axis!r}{after}; {hint}")
        for label in () if settings else labels:
            if label not in labels_of[axis]:
                hint = nearest(str(label), [str(each) for each in labels_of[axis]])
                raise here.error(f"{axis} is never {label!r}; {hint}")


def _find_named(
    statement: Statement, location: Location
) -> Iterator[tuple[Location, str, Collection[Scalar]]]:
    """Yield each coordinate that a statement names, with its location and its labels.

    The items are tuples (location, coordinate, labels); the labels are empty if the statement has
    none.
    """
    for names in getattr(statement, "same_as", {}).items():
        yield location / "same_as", "mechanism", names
    for key in ("axes", "at"):
        for axis, labels in getattr(statement, key, {}).items():
            listed = labels if isinstance(labels, tuple) else (labels,)
            yield location / key / axis, axis, listed
    if (over := getattr(statement, "over", None)) is not None:
        yield location / "over", "mechanism", (over,)
    for key in ("along", "x", "hue", "panels"):
        axis = getattr(statement, key, None)
        if axis is not None and not (key == "x" and axis in SIZES):
            yield location / key, axis, ()
