"""Figures of an experiment checked against its grids."""

from collections.abc import Sequence

from sweep.errors import SweepError
from sweep.experiment.figures import SIZES, Figure
from sweep.experiment.schema import Experiment
from sweep.grid import conditions
from sweep.grid.grids import Grid
from workloads.parameters import nearest

_BUDGET = ("delta", "epsilon")


def check_figures(experiment: Experiment, grids: Sequence[Grid]) -> None:
    """Refuse figures over axes that no grid has, and two of one name.

    Raises
    ------
    ExperimentError
        With file, line and key.
    """
    seen: set[str] = set()
    for at, figure in enumerate(experiment.figures):
        path = ("figures", at)
        if figure.name and figure.name in seen:
            message = f"two figures are called {figure.name!r}; rename one"
            raise experiment.origin.error((*path, "name"), message)
        seen.add(figure.name)
        known = _coordinates(_of_group(experiment, figure, grids, at))
        for key in ("x", "hue", "panels"):
            name = getattr(figure, key)
            if name is not None and name not in known and not (key == "x" and name in SIZES):
                raise experiment.origin.error(
                    (*path, key), f"there is no coordinate {name!r}; {nearest(name, known)}"
                )
        if figure.where is not None:
            try:
                conditions.parse(figure.where)
            except SweepError as error:
                raise experiment.origin.error((*path, "where"), str(error)) from error


def _of_group(
    experiment: Experiment, figure: Figure, grids: Sequence[Grid], at: int
) -> Sequence[Grid]:
    if figure.group is None:
        return grids
    names = [grid.group for grid in grids]
    if figure.group not in names:
        raise experiment.origin.error(
            ("figures", at, "group"),
            f"there is no group {figure.group!r}; {nearest(figure.group, names)}",
        )
    return [grid for grid in grids if grid.group == figure.group]


def _coordinates(grids: Sequence[Grid]) -> list[str]:
    axes = [axis for grid in grids for axis in grid.axes]
    companions = [name for axis in axes for name in axis.companions]
    scalars = [name for grid in grids for name in grid.scalars]
    return sorted({*(axis.name for axis in axes), *companions, *scalars, *_BUDGET})
