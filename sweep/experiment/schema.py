"""The form of an experiment: its keys, their types and their defaults."""

from collections.abc import Iterator, Mapping
from textwrap import shorten
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Strict,
    Tag,
    model_validator,
)

from sweep.experiment.canonical import Scalar, Spec, label, rounded, values_of
from sweep.experiment.document import Place
from workloads import conditions
from workloads.parameters import repeated

_T = TypeVar("_T")


def _entry(*keys: str) -> BeforeValidator:
    """A validator that makes the fields of a `Spec` from a name or a mapping.

    In the mapping, all keys except ``name`` and ``keys`` are parameters.
    """

    def fields(written: object) -> object:
        if isinstance(written, str):
            return {"name": written}
        if not isinstance(written, Mapping):
            return written
        own = {key: written[key] for key in ("name", *keys) if key in written}
        return {**own, "params": {key: written[key] for key in written if key not in own}}

    return BeforeValidator(fields)


Workload = Annotated[Spec, _entry()]
Targets = Annotated[Spec, _entry("label")]
Mechanism = Annotated[Spec, _entry("label", "preset", "when")]


Many = Annotated[tuple[_T, ...], Strict(False)]
"""A list of values, kept as a tuple; a single value is refused."""
OneOrMany = Annotated[
    Many[_T], BeforeValidator(lambda given: given if isinstance(given, list | tuple) else (given,))
]
"""A list of values, kept as a tuple; a single value means a list of one."""
_NOT_EMPTY = Field(min_length=1)


def _readable(where: str) -> str:
    conditions.parse(where)
    return where


Where = Annotated[str, AfterValidator(_readable)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Block(_Strict):
    """A product of axes: workload parameters x targets x replicates x mechanisms.

    Attributes
    ----------
    workload : Spec
        A workload family and its parameters; a list of values makes an axis.
    group : str
        The group of the dataset to which the block belongs; by default the workload's name. The
        blocks of one group make one grid.
    targets : Spec or tuple of Spec
        One targets rule, or a list of targets rules; a list makes an axis.
    mechanism : tuple of Spec
        The mechanisms, which make the axis ``mechanism``.
    neighbours : object
        Which databases are neighbours, as `as_neighbours` reads it; a list makes an axis.
    options : Mapping[str, object]
        Options for all mechanisms of the block; a list of values makes an axis.
    replicates : int
        Number of repetitions; random workloads and targets get the seeds seed, seed + 1, ...
    zipped : tuple of tuple of str
        Tuples of axes that vary together (key ``zip``); the first axis names the dimension.
    where : str, optional
        A condition over the coordinates; points where it is false are left out.
    """

    workload: Workload
    group: Annotated[str, Field(min_length=1, pattern="^[^/]+$")] = Field(
        default_factory=lambda block: str(block["workload"].name), validate_default=True
    )
    targets: Annotated[
        Annotated[Targets, Tag("one")] | Annotated[Many[Targets], _NOT_EMPTY, Tag("many")],
        Discriminator(lambda given: "many" if isinstance(given, list | tuple) else "one"),
    ] = Spec("uniform")
    mechanism: Annotated[OneOrMany[Mechanism], _NOT_EMPTY]
    neighbours: Any = "add-remove"
    options: Mapping[str, Any] = {}
    replicates: Annotated[int, Field(ge=1)] = 1
    zipped: Annotated[Many[Many[str]], Field(alias="zip")] = ()
    where: Where | None = None

    @property
    def rules(self) -> tuple[Spec, ...]:
        """The targets rules as a tuple; a single rule makes a tuple of one."""
        return self.targets if isinstance(self.targets, tuple) else (self.targets,)


SIZES = ("domain_size", "query_count")
"""Variables that may be the horizontal axis of a figure, besides the coordinates."""


class Figure(_Strict):
    """A figure of an experiment: a variable over a coordinate, or over one of `SIZES`.

    Each label of the coordinate ``hue`` has a line, and each label of the coordinate ``panels`` has
    a panel. ``log`` names the logarithmic axes, and ``where`` is a condition on the cells.
    ``sweep plot`` selects a figure by its name, which by default is ``figure-1``, ``figure-2`` and
    so on. ``group`` is the only group to draw; by default every group has a picture.
    """

    variable: str
    x: str
    name: Annotated[str, Field(pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]*)?$")] = ""
    title: str = ""
    hue: str = "mechanism"
    panels: str | None = None
    log: OneOrMany[Literal["x", "y"]] = ()
    where: Where | None = None
    group: str | None = None
    source: str = ""


Labels = Annotated[Many[Scalar], _NOT_EMPTY]
SomeLabels = Annotated[OneOrMany[Scalar], _NOT_EMPTY]


class ComparisonTable(_Strict):
    """A table of numbers to compare with: printed in a paper, or from a closed form.

    ``axes`` has the axes of the rows first, then the axis of the columns. A value is None if the
    paper has no number there. ``at`` has the labels of further coordinates, which all numbers
    share. ``group`` is needed only if the experiment has several groups. If the numbers of a
    mechanism are all 1, the paper's ratios refer to that mechanism.

    Attributes
    ----------
    same_as : Mapping[str, str]
        Maps a mechanism to the mechanism whose numbers it repeats by definition; only the latter
        are judged.
    repeats : str
        The experiment that judges the same printed numbers; here they are only shown.
    reading : str
        The interpretation of the paper that these numbers follow, if the verdicts follow another.
    unjudged : str
        Why the numbers cannot be compared.
    cause : str
        Why the printed and the measured numbers differ, as an experiment shows.
    slip : str
        A proof that the printed numbers are wrong.
    """

    variable: str
    axes: Annotated[Mapping[str, Labels], Field(min_length=1)]
    values: Annotated[list[Any], Field(min_length=1)]
    at: Mapping[str, Scalar] = {}
    group: str | None = None
    title: str = ""
    source: str = ""
    same_as: Mapping[str, str] = {}
    repeats: str = ""
    reading: str = ""
    unjudged: str = ""
    cause: str = ""
    slip: str = ""

    @model_validator(mode="after")
    def _check(self) -> "ComparisonTable":
        names = self.axes.get("mechanism", ())
        for name, other in self.same_as.items():
            if not {name, other} <= set(names) or other in self.same_as:
                raise ValueError(
                    f"same_as: {name}: {other} expects two mechanisms of the table, the second "
                    "with numbers of its own"
                )
        shape = {name: len(labels) for name, labels in self.axes.items()}
        values = np.array(self.values, dtype=object)
        numbers = (value is None or type(value) in (int, float) for value in values.flat)
        if values.shape != (*shape.values(),) or not all(numbers):
            sizes = " x ".join(f"{size} ({name})" for name, size in shape.items())
            raise ValueError(f"values do not match the axes; expected {sizes} numbers or nulls")
        return self

    def points(self) -> Iterator[tuple[dict[str, Scalar], float]]:
        """All numbers in order, each with its labels."""
        for index, number in np.ndenumerate(np.array(self.values, dtype=object)):
            if number is not None:
                axes = zip(self.axes.items(), index, strict=True)
                yield {name: labels[at] for (name, labels), at in axes}, float(number)

    @property
    def decimals(self) -> int:
        """Largest number of decimals of the table's numbers."""
        return max((decimals_of(number) for _, number in self.points()), default=0)

    @property
    def references(self) -> list[Scalar]:
        """The mechanisms whose numbers are all 1: the table's ratios refer to them."""
        stated: dict[Scalar, set[float]] = {}
        for at, number in self.points():
            stated.setdefault(at.get("mechanism", ""), set()).add(number)
        return [name for name, numbers in stated.items() if name != "" and numbers == {1.0}]


class Claim(_Strict):
    """A claim of a paper, and the numbers that decide whether it holds.

    The numbers are the values of `variable`, one for each seed at every point that `at` selects.
    With `over`, each is divided by the number of the mechanism `over` at the same point. With
    `along`, each is divided by the previous number along the axis `along`. The claim holds if all
    these numbers are between `least` and `most`; a printed 2.07 means 2.065 to 2.075.

    Instead of all this, `unjudged` may say why nothing computed here decides the claim. `group` is
    needed only if the experiment has several groups.

    Attributes
    ----------
    reading : str
        The interpretation of the paper that this claim follows, if the verdicts follow another.
    part : str
        The part of the sentence that this claim judges, if several claims judge the sentence. Such
        claims have the same text and source, possibly in several experiments, and share a verdict.
    share : float
        The share of the points at which the number has to be within the range; it is less than 1
        if the sentence says "generally".
    repeats_number : bool
        Whether the claim repeats the printed numbers that `at` selects, and shares their verdict.
    cause : str
        Why the claim does not hold, as an experiment shows.
    slip : str
        A proof that the sentence is wrong.
    """

    text: str
    source: str = ""
    reading: str = ""
    part: str = ""
    group: str | None = None
    variable: str | None = None
    at: Mapping[str, SomeLabels] = {}
    over: Scalar | None = None
    along: str | None = None
    least: float | None = None
    most: float | None = None
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    repeats_number: bool = False
    unjudged: str = ""
    cause: str = ""
    slip: str = ""

    @model_validator(mode="after")
    def _check_decided(self) -> "Claim":
        measured = (self.variable, self.over, self.along, self.least, self.most)
        if self.repeats_number and (not self.at or any(one is not None for one in measured[1:])):
            raise ValueError("repeats a number: expected 'variable' and 'at', and no range")
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


def decimals_of(number: float) -> int:
    """The number of decimals of a number, without trailing zeros."""
    return len(np.format_float_positional(number, trim="-").partition(".")[2])


def _named_apart(figures: tuple[Figure, ...]) -> tuple[Figure, ...]:
    if twice := repeated(figure.name for figure in figures if figure.name):
        raise ValueError(f"two figures are called {twice!r}; rename one")
    return figures


def _distinct(values: tuple[float, ...]) -> tuple[float, ...]:
    if len(set(values)) < len(values):
        raise ValueError("holds a value twice; write each value once")
    return values


def _none_or_several(draws: int) -> int:
    if draws == 1:
        raise ValueError("one draw has no variance; expected 0 or at least 2")
    return draws


Delta = Annotated[float, Field(gt=0, lt=1), AfterValidator(rounded)]
Epsilon = Annotated[float, Field(gt=0), AfterValidator(rounded)]
Kept = Literal[
    "query_variances", "privacy_profile", "covariance", "noise_matrix", "density", "prior", "trace"
]


_SHOWN_BLOCKS, _LINE_WIDTH = 4, 100
"""Largest numbers of blocks, and of characters per line, in the repr of an experiment."""


class Experiment(_Strict):
    """A sweep: what to solve, and what to compare it with.

    Attributes
    ----------
    name : str
        Short name; by default the name of the file. A store accepts only experiments of one name.
    text : str
        The effective YAML, with ``--set`` applied.
    digest : str
        Hash of the content of ``text``.
    place : Place
        Where the experiment is written, for errors; ``place / "blocks" / 0`` is a block's place.
    delta, epsilon : tuple of float
        The values of δ and ε for which the budget variables are stored.
    reference : str
        The label of the mechanism to which variance ratios refer. By default it is the certified
        optimum; then a ratio says how far a mechanism is from the best that is possible.
    keep : tuple of str
        The arrays to store in addition to the numbers.
    show : tuple of str
        The variables that ``sweep show`` lists if there are no published numbers.
    time_limit : float, optional
        Time limit of one solve in seconds, for the mechanisms that take a limit.
    simulate : int
        Number of noise vectors to draw from every mechanism.
    warm_start : str, optional
        An axis along which every solve starts from the dual weights of the previous solve, if its
        mechanism can. Results change only within their gaps.
    published : tuple of ComparisonTable
        The paper's tables: numbers that are printed there, and no others.
    closed_form : tuple of ComparisonTable
        Tables of numbers from a paper's formulas, which we have evaluated.
    claims : tuple of Claim
        The sentences of the paper that say how large numbers are, or which of them is larger.
    quick : tuple of str
        Changes, as for ``--set``, with which the experiment takes only seconds.
    scorecard : bool
        Whether `sweep scorecard` judges the experiment if the command names no experiments.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    title: str = ""
    source: str = ""
    text: str
    digest: str
    place: Place = Field(repr=False)
    delta: Annotated[OneOrMany[Delta], AfterValidator(_distinct), _NOT_EMPTY] = (1e-5, 1e-9)
    epsilon: Annotated[OneOrMany[Epsilon], AfterValidator(_distinct)] = ()
    reference: str = "optimal"
    keep: OneOrMany[Kept] = ()
    show: OneOrMany[str] = ()
    time_limit: Annotated[float, Field(ge=0)] | None = None
    simulate: Annotated[int, Field(ge=0), AfterValidator(_none_or_several)] = 0
    warm_start: str | None = None
    blocks: Annotated[Many[Block], _NOT_EMPTY]
    published: Many[ComparisonTable] = ()
    closed_form: Many[ComparisonTable] = ()
    claims: Many[Claim] = ()
    figures: Annotated[Many[Figure], AfterValidator(_named_apart)] = ()
    quick: OneOrMany[str] = ()
    scorecard: bool = True

    def __repr__(self) -> str:
        lines = [f"Experiment {self.name}: {self.title}".rstrip(": ")]
        for block in self.blocks[:_SHOWN_BLOCKS]:
            written = block.workload.params.items()
            params = (f"{name}={label(values_of(None, value)[0])}" for name, value in written)
            repeated = f", {block.replicates} replicates" if block.replicates > 1 else ""
            mechanisms = ", ".join(mechanism.shown for mechanism in block.mechanism)
            lines.append(f"{' '.join([block.workload.name, *params])}{repeated}: {mechanisms}")
        if more := self.blocks[_SHOWN_BLOCKS:]:
            lines.append(f"and {len(more)} further blocks")
        return "\n  ".join(shorten(line, _LINE_WIDTH, placeholder=" ...") for line in lines)

    __str__ = __repr__

    @property
    def is_compared(self) -> bool:
        """Whether the experiment has numbers or claims of a paper to compare with."""
        return bool(self.published or self.closed_form or self.claims)


DERIVED = ("text", "digest", "place")
"""Fields of `Experiment` that are computed when it is loaded."""
