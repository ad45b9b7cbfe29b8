"""Checks that tables, claims and figures refer to coordinates of their experiment."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from sweep.errors import SweepError
from sweep.experiment.canonical import Scalar
from sweep.experiment.document import Place
from sweep.experiment.figures import SIZES
from sweep.experiment.published import Claim, ComparisonTable
from sweep.experiment.schema import Experiment
from sweep.grid import conditions
from sweep.grid.grids import Grid
from workloads.parameters import nearest

Coordinates = Mapping[str, Collection[Scalar]]
"""The labels of every coordinate."""


def coordinates(experiment: Experiment, grid: Grid) -> dict[str, Sequence[Scalar]]:
    """The coordinates of a group's dataset with all their labels, including budgets."""
    labels: dict[str, Sequence[Scalar]] = {
        "epsilon": experiment.epsilon,
        "delta": experiment.delta,
        **{name: (value,) for name, value in grid.scalars.items()},
    }
    for axis in grid.axes:
        labels |= {axis.name: axis.values, **axis.companions}
    return labels


def check_comparisons(experiment: Experiment, grids: Sequence[Grid]) -> None:
    """Refuse a table or a claim that refers to no cell of the experiment.

    Labels are not looked at in an experiment that ``--set`` has changed: what it compares with is
    about the sizes of the paper, and some of them may be left out.

    Raises
    ------
    ExperimentError
        For an unknown group, axis or label; with file, line and key.
    """
    groups = {grid.group: coordinates(experiment, grid) for grid in grids}
    listed: dict[str, Sequence[ComparisonTable | Claim]] = {
        "published": experiment.published,
        "closed_form": experiment.closed_form,
        "claims": [claim for claim in experiment.claims if not claim.unjudged],
    }
    for key, compared in listed.items():
        for at, statement in enumerate(compared):
            place = experiment.place / key / at
            known = _of_group(groups, statement.group, place)
            for here, axis, labels in _named(statement, place):
                if axis not in known:
                    raise here.error(
                        f"no axis is called {axis!r}{_after(experiment)}; "
                        f"{nearest(axis, sorted(known))}"
                    )
                for label in () if experiment.origin.settings else labels:
                    if label not in known[axis]:
                        some = [str(one) for one in known[axis]][:8]
                        expected = ", ".join([*some, *["..."] * (len(known[axis]) > len(some))])
                        raise here.error(f"{axis} is never {label!r}; expected {expected}")


def check_figures(experiment: Experiment, grids: Sequence[Grid]) -> None:
    """Refuse figures over axes that no grid has, and duplicate names.

    Raises
    ------
    ExperimentError
        With file, line and key.
    """
    groups = {grid.group: coordinates(experiment, grid) for grid in grids}
    seen: set[str] = set()
    for at, figure in enumerate(experiment.figures):
        place = experiment.place / "figures" / at
        if figure.name and figure.name in seen:
            message = f"two figures are called {figure.name!r}; rename one"
            raise (place / "name").error(message)
        seen.add(figure.name)
        _check_group(groups, figure.group, place)
        chosen = groups.values() if figure.group is None else [groups[figure.group]]
        known = sorted({name for group in chosen for name in group})
        for key in ("x", "hue", "panels"):
            name = getattr(figure, key)
            if name is not None and name not in known and not (key == "x" and name in SIZES):
                raise (place / key).error(
                    f"there is no coordinate {name!r}{_after(experiment)}; {nearest(name, known)}"
                )
        if figure.where is not None:
            try:
                conditions.parse(figure.where)
            except SweepError as error:
                raise (place / "where").error(str(error)) from error


def _after(experiment: Experiment) -> str:
    """The settings that may have removed what the file refers to, for error messages."""
    settings = experiment.origin.settings
    return f" after {settings}" if settings else ""


def _of_group(groups: Mapping[str, Coordinates], group: str | None, place: Place) -> Coordinates:
    if group is None and len(groups) > 1:
        raise place.error(f"needs 'group', since there are several: {', '.join(groups)}")
    _check_group(groups, group, place)
    return groups[group] if group is not None else next(iter(groups.values()))


def _check_group(groups: Mapping[str, Coordinates], group: str | None, place: Place) -> None:
    if group is not None and group not in groups:
        raise (place / "group").error(
            f"no group is called {group!r}; {nearest(group, sorted(groups))}"
        )


def _named(
    statement: ComparisonTable | Claim, place: Place
) -> Iterator[tuple[Place, str, Collection[Scalar]]]:
    """The axes and labels that a table or a claim names, each with its place."""
    if isinstance(statement, Claim):
        for axis, labels in statement.at.items():
            yield place / "at" / axis, axis, labels
        if statement.over is not None:
            yield place / "over", "mechanism", (statement.over,)
        if statement.along is not None:
            yield place / "along", statement.along, ()
        return
    for axis, labels in statement.axes.items():
        yield place / "axes" / axis, axis, labels
    for axis, label in statement.at.items():
        yield place / "at" / axis, axis, (label,)
