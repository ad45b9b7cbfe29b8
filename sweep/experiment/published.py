"""What an experiment is compared with: published tables, closed forms and claims of papers."""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from itertools import product
from operator import getitem
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from sweep.experiment.blocks import always_many, many
from sweep.experiment.canonical import Scalar

Labels = Annotated[tuple[Scalar, ...], BeforeValidator(many), Field(min_length=1)]
SomeLabels = Annotated[tuple[Scalar, ...], BeforeValidator(always_many), Field(min_length=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ComparisonTable(_Strict):
    """A table of numbers to compare with: printed in a paper, or from a closed form.

    Its axes are those of the rows first, then that of the columns; a value is None where the paper
    has none. ``at`` are further coordinates of all numbers. It needs a group only where the
    experiment has several. A mechanism whose numbers are all 1 is the one that a paper's ratios
    refer to.
    """

    variable: str
    axes: Annotated[Mapping[str, Labels], Field(min_length=1)]
    values: Annotated[list[Any], Field(min_length=1)]
    at: Mapping[str, Scalar] = {}
    group: str | None = None
    title: str = ""
    source: str = ""

    @model_validator(mode="after")
    def _check_shape(self) -> "ComparisonTable":
        shape = tuple(len(labels) for labels in self.axes.values())
        if not _has_shape(self.values, shape):
            sizes = " x ".join(
                f"{size} ({name})" for name, size in zip(self.axes, shape, strict=True)
            )
            raise ValueError(f"values do not match the axes; expected {sizes} numbers or nulls")
        return self

    def points(self) -> Iterator[tuple[dict[str, Scalar], float]]:
        """Every number that it has, with its labels, in its order."""
        for index in product(*(range(len(labels)) for labels in self.axes.values())):
            number: Any = reduce(getitem, index, self.values)
            if number is not None:
                axes = zip(self.axes.items(), index, strict=True)
                yield {name: labels[at] for (name, labels), at in axes}, float(number)

    @property
    def references(self) -> list[Scalar]:
        """The mechanisms whose numbers are all 1, which its ratios refer to."""
        stated: dict[Scalar, set[float]] = {}
        for at, number in self.points():
            stated.setdefault(at.get("mechanism", ""), set()).add(number)
        return [name for name, numbers in stated.items() if name != "" and numbers == {1.0}]


class Claim(_Strict):
    """A claim of a paper, and the number that decides whether it holds.

    That number is `variable` at every point that `at` leaves, one for each seed. With `over` it is
    divided by that of this mechanism at the same point, with `along` by the one before along this
    axis. The sentence holds where every one of them is from `least` to `most`; what is printed as
    2.07 is 2.065 to 2.075.

    Instead, `unjudged` may say why nothing that is computed here decides it. It needs a group only
    where the experiment has several.
    """

    text: str
    source: str = ""
    group: str | None = None
    variable: str | None = None
    at: Mapping[str, SomeLabels] = {}
    over: Scalar | None = None
    along: str | None = None
    least: float | None = None
    most: float | None = None
    unjudged: str = ""

    @model_validator(mode="after")
    def _check_decided(self) -> "Claim":
        measured = (self.variable, self.over, self.along, self.least, self.most)
        if self.unjudged:
            if self.at or any(value is not None for value in measured):
                raise ValueError("has 'unjudged', so expected no other key than text and source")
        elif self.variable is None:
            raise ValueError(
                "expected 'variable' with 'least', 'most' or both, or 'unjudged' with the reason"
            )
        elif self.least is not None and self.most is not None and self.least > self.most:
            raise ValueError(f"least is {self.least:g}, above most, {self.most:g}")
        return self


def _has_shape(values: object, shape: Sequence[int]) -> bool:
    if not shape:
        return values is None or (isinstance(values, int | float) and not isinstance(values, bool))
    return (
        isinstance(values, list)
        and len(values) == shape[0]
        and all(_has_shape(row, shape[1:]) for row in values)
    )
