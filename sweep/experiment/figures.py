"""The figures that an experiment declares: which variable over which axis."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from sweep.experiment.blocks import always_many

SIZES = ("domain_size", "query_count")
"""The variables that may be the horizontal axis of a figure, beside the coordinates."""


class Figure(BaseModel):
    """A figure of an experiment: a variable over a coordinate, or over one of `SIZES`.

    Along the coordinate ``hue`` every label has a line, along ``panels`` a panel. ``log`` names the
    logarithmic axes, ``where`` is a condition on the cells. ``sweep plot`` draws it by its name, by
    default ``figure-1``, ``figure-2`` and so on. It needs a group only where the experiment has
    several.
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
