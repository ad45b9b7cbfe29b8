"""Published numbers: tables and statements of the papers, as data beside an experiment."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from sweep.experiment.canonical import Scalar

Labels = Annotated[
    tuple[Scalar, ...],
    BeforeValidator(lambda written: tuple(written) if isinstance(written, list) else written),
    Field(min_length=1),
]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class PublishedTable(_Strict):
    """One table of a paper.

    A mechanism whose numbers are all 1 is the one that the paper's ratios refer to.

    Attributes
    ----------
    variable : str
        The variable of the dataset that it shows.
    axes : Mapping[str, tuple of Scalar]
        Its axes and their labels: rows first, columns last.
    values : nested list of float or None
        One number for each combination of labels; None where the paper has none.
    at : Mapping[str, Scalar]
        Further coordinates of the published numbers.
    group : str, optional
        The group of the dataset; not needed where the experiment has only one.
    title : str
        The name of the table.
    source : str
        The paper, and the table in it.
    """

    variable: str
    axes: Annotated[Mapping[str, Labels], Field(min_length=1)]
    values: Annotated[list[Any], Field(min_length=1)]
    at: Mapping[str, Scalar] = {}
    group: str | None = None
    title: str = ""
    source: str = ""

    @model_validator(mode="after")
    def _check_shape(self) -> "PublishedTable":
        shape = tuple(len(labels) for labels in self.axes.values())
        if not _has_shape(self.values, shape):
            sizes = " x ".join(
                f"{size} ({name})" for name, size in zip(self.axes, shape, strict=True)
            )
            raise ValueError(f"values do not match the axes; expected {sizes} numbers or nulls")
        return self

    def printed(self, labels: Mapping[str, Any]) -> float | None:
        """The number that the paper prints at these labels, None if it prints none."""
        found: Any = self.values
        for name, printed in self.axes.items():
            if labels.get(name) not in printed:
                return None
            found = found[printed.index(labels[name])]
        return None if found is None else float(found)


class Claim(_Strict):
    """A sentence of a paper about numbers.

    Attributes
    ----------
    variable : str
        The variable of the dataset that it is about.
    text : str
        The sentence.
    at : Mapping[str, Scalar]
        The coordinates that it speaks of.
    least, most : float, optional
        The range that it states.
    group : str, optional
        The group of the dataset.
    source : str
        The paper, and the section in it.
    """

    variable: str
    text: str
    at: Mapping[str, Scalar] = {}
    least: float | None = None
    most: float | None = None
    group: str | None = None
    source: str = ""


def _has_shape(values: object, shape: Sequence[int]) -> bool:
    if not shape:
        return values is None or (isinstance(values, int | float) and not isinstance(values, bool))
    return (
        isinstance(values, list)
        and len(values) == shape[0]
        and all(_has_shape(one, shape[1:]) for one in values)
    )
