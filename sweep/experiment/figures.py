"""The figures that an experiment declares: which variable over which axis."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from sweep.experiment.blocks import always_many

SIZES = ("domain_size", "query_count")
"""The variables that may be the horizontal axis of a figure, beside the coordinates."""


class Figure(BaseModel):
    """A figure of an experiment: one variable over one coordinate, or over one of `SIZES`.

    Attributes
    ----------
    variable : str
        The variable of the dataset on the vertical axis.
    x : str
        The coordinate on the horizontal axis, or one of `SIZES`.
    name : str
        By which ``sweep plot`` draws it; by default ``figure-1``, ``figure-2`` and so on.
    title : str
        What it shows.
    hue : str
        The coordinate that has a line for every label.
    panels : str, optional
        The coordinate that has a panel for every label.
    log : tuple of {"x", "y"}
        The logarithmic axes.
    where : str, optional
        A condition on the cells.
    group : str, optional
        The group of the dataset; not needed where the experiment has only one.
    source : str
        The paper, and the figure in it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    variable: str
    x: str
    name: Annotated[str, Field(pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]*)?$")] = ""
    title: str = ""
    hue: str = "mechanism"
    panels: str | None = None
    log: Annotated[tuple[Literal["x", "y"], ...], BeforeValidator(always_many)] = ()
    where: str | None = None
    group: str | None = None
    source: str = ""
