"""The schema of an experiment: its keys, their types and their defaults."""

from collections.abc import Iterator, Mapping
from textwrap import shorten
from typing import Annotated, Literal, TypeVar

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    Strict,
    Tag,
    model_validator,
)

from sweep.experiment.canonical import Scalar, label, list_values, round_value
from sweep.experiment.document import Location
from workloads import conditions
from workloads.parameters import repeated

_T = TypeVar("_T")


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Entry(_Strict):
    """What the file says about a workload, a targets rule or a mechanism.

    Attributes
    ----------
    params : Mapping[str, object]
        The parameters or options that the file sets, each with one or several values.
    label : str, optional
        The label along the axis ``targets`` or ``mechanism``.
    preset : str, optional
        The name of a set of the mechanism's options.
    when : {"available"}, optional
        With ``"available"``, the entry is left out if its mechanism or preset does not exist; by
        default, this is an error.
    """

    name: str
    params: Mapping[str, JsonValue] = {}
    label: str | None = None
    preset: str | None = None
    when: Literal["available"] | None = None

    @property
    def shown(self) -> str:
        """The label; by default the name, followed by the preset (if any) in parentheses."""
        return self.label or (f"{self.name} ({self.preset})" if self.preset else self.name)


def _with_keys(*keys: str) -> BeforeValidator:
    """Return a validator that makes the fields of an `Entry` from a name or a mapping.

    In a mapping, ``name`` and the keys in ``keys`` are fields of the `Entry`; all other keys are
    parameters.
    """

    def split(written: object) -> object:
        if isinstance(written, str):
            return {"name": written}
        if not isinstance(written, Mapping):
            return written
        fields = {key: written[key] for key in ("name", *keys) if key in written}
        return {**fields, "params": {key: written[key] for key in written if key not in fields}}

    return BeforeValidator(split)


Workload = Annotated[Entry, _with_keys()]
Targets = Annotated[Entry, _with_keys("label")]
Mechanism = Annotated[Entry, _with_keys("label", "preset", "when")]


Many = Annotated[tuple[_T, ...], Strict(False)]
"""A list of values, stored as a tuple; a single value is refused."""
OneOrMany = Annotated[
    Many[_T], BeforeValidator(lambda given: given if isinstance(given, list | tuple) else (given,))
]
"""A list of values, stored as a tuple; a single value means a list of one."""
_NOT_EMPTY = Field(min_length=1)


def _check_condition(where: str) -> str:
    conditions.parse(where)
    return where


Where = Annotated[str, AfterValidator(_check_condition)]


class Block(_Strict):
    """A product of axes: workload parameters, targets, neighbours, options, replicates, mechanisms.

    Attributes
    ----------
    workload : Entry
        A workload family and its parameters; a list of values makes an axis.
    group : str
        The group of the dataset to which the block belongs; by default the workload's name. The
        blocks of one group make one grid.
    targets : Entry or tuple of Entry
        One targets rule, or a list of targets rules; a list makes an axis.
    mechanism : tuple of Entry
        The mechanisms, which make the axis ``mechanism``.
    neighbours : object
        Which databases are neighbours, in a notation that `as_neighbours` accepts; a list makes an
        axis.
    options : Mapping[str, object]
        Options for all mechanisms of the block; a list of values makes an axis.
    replicates : int
        Number of repetitions; random workloads and targets use ``seed``, ``seed + 1`` and so on.
    zipped : tuple of tuple of str
        Names of axes that vary together (key ``zip``); each tuple makes one dimension, named after
        its first axis.
    where : str, optional
        A condition on the coordinates; points at which it is false are left out.
    """

    workload: Workload
    group: Annotated[str, Field(max_length=100, pattern="^[^./][^/]*$")] = Field(
        default_factory=lambda block: str(block["workload"].name), validate_default=True
    )
    targets: Annotated[
        Annotated[Targets, Tag("one")] | Annotated[Many[Targets], _NOT_EMPTY, Tag("many")],
        Discriminator(lambda given: "many" if isinstance(given, list | tuple) else "one"),
    ] = Entry(name="uniform")
    mechanism: Annotated[OneOrMany[Mechanism], _NOT_EMPTY]
    neighbours: JsonValue = "add-remove"
    options: Mapping[str, JsonValue] = {}
    replicates: Annotated[int, Field(ge=1)] = 1
    zipped: Annotated[Many[Many[str]], Field(alias="zip")] = ()
    where: Where | None = None

    @property
    def rules(self) -> tuple[Entry, ...]:
        """The targets rules as a tuple; a single rule makes a tuple of one."""
        return self.targets if isinstance(self.targets, tuple) else (self.targets,)


SIZES = ("domain_size", "query_count")
"""Variables that a figure may have on its horizontal axis, in addition to coordinates."""


class Figure(_Strict):
    """A figure of an experiment: ``variable`` against ``x``, a coordinate or one of `SIZES`.

    Each label of the coordinate ``hue`` has a line, and each label of the coordinate ``panels`` has
    a panel. ``log`` lists the logarithmic axes, and ``where`` is a condition on the cells. The
    ``name``, by default ``figure-1``, ``figure-2`` and so on, selects a figure in the command
    ``sweep plot``. ``group`` restricts the figure to one group; by default, there is a picture for
    every group.
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


class _Stated(_Strict):
    """What a paper states, and what is known about the comparison with the results.

    Attributes
    ----------
    group : str, optional
        The group that is compared; needed only if the experiment has several groups.
    reading : str
        The interpretation of the paper from which the statement follows, if it is not the
        interpretation that is judged.
    unjudged : str
        Why the statement cannot be judged.
    cause : str
        Why the statement and the measured numbers differ, as confirmed by an experiment.
    slip : str
        A proof that the statement is wrong.
    """

    group: str | None = None
    source: str = ""
    reading: str = ""
    unjudged: str = ""
    cause: str = ""
    slip: str = ""


class ComparisonTable(_Stated):
    """Numbers printed in a paper or computed from a closed form, to compare with measured numbers.

    ``axes`` lists the axes of the rows, then the axis of the columns. ``values`` is a nested list
    with one level for each axis; None means that the paper has no number there. ``at`` gives the
    labels of further coordinates, which apply to all numbers. If the numbers of a mechanism are all
    1, the table's numbers are ratios to the numbers of that mechanism.

    Attributes
    ----------
    same_as : Mapping[str, str]
        Maps a mechanism to a second mechanism that has the same numbers by definition; only the
        numbers of the second are judged.
    repeats : str
        Name of another experiment that judges the same printed numbers; this table is then only
        displayed.
    """

    variable: str
    axes: Annotated[Mapping[str, Labels], Field(min_length=1)]
    values: Annotated[list[JsonValue], Field(min_length=1)]
    at: Mapping[str, Scalar] = {}
    title: str = ""
    same_as: Mapping[str, str] = {}
    repeats: str = ""

    @model_validator(mode="after")
    def _check(self) -> "ComparisonTable":
        shape = {name: len(labels) for name, labels in self.axes.items()}
        values = np.array(self.values, dtype=object)
        numbers = (value is None or type(value) in (int, float) for value in values.flat)
        if values.shape != (*shape.values(),) or not all(numbers):
            sizes = " x ".join(f"{size} ({name})" for name, size in shape.items())
            raise ValueError(f"values do not match the axes; expected {sizes} numbers or nulls")
        return self

    def points(self) -> Iterator[tuple[dict[str, Scalar], float]]:
        """Yield the numbers of the table row by row, each preceded by its labels."""
        for index, number in np.ndenumerate(np.array(self.values, dtype=object)):
            if number is not None:
                axes = zip(self.axes.items(), index, strict=True)
                yield {name: labels[at] for (name, labels), at in axes}, float(number)

    @property
    def decimals(self) -> int:
        """Largest number of decimal places among the table's numbers."""
        return max((count_decimals(number) for _, number in self.points()), default=0)

    @property
    def references(self) -> list[Scalar]:
        """The mechanisms whose numbers are all 1: the table's numbers are ratios to theirs."""
        stated: dict[Scalar, set[float]] = {}
        for labels, number in self.points():
            stated.setdefault(labels.get("mechanism", ""), set()).add(number)
        return [name for name, numbers in stated.items() if name != "" and numbers == {1.0}]


class Claim(_Stated):
    """A claim of a paper, and the numbers that decide whether it holds.

    The numbers are the values of `variable`, one for each seed at every point that `at` selects.
    With `over`, each number is divided by the number of the mechanism `over` at the same point.
    With `along`, each number is divided by the previous number along the axis `along`. The claim
    holds if all these numbers are between `least` and `most`; for a printed 2.07, the file sets
    `least` to 2.065 and `most` to 2.075.

    If nothing computed here decides the claim, `unjudged` gives the reason in place of the keys
    above.

    Attributes
    ----------
    part : str
        The part of the sentence that this claim covers, if several claims cover one sentence. These
        claims have the same text and source, may belong to different experiments, and share one
        verdict.
    share : float
        Fraction of the points at which the number must be within the range; less than 1 if the
        sentence says "generally".
    repeats_number : bool
        Whether the claim repeats the printed numbers that `at` selects; it then gets the worst
        verdict on these numbers.
    """

    text: str
    part: str = ""
    variable: str | None = None
    at: Mapping[str, SomeLabels] = {}
    over: Scalar | None = None
    along: str | None = None
    least: float | None = None
    most: float | None = None
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    repeats_number: bool = False

    @model_validator(mode="after")
    def _check_decided(self) -> "Claim":
        if self.variable is None and not self.unjudged:
            raise ValueError(
                "expected 'variable' with 'least', 'most' or both, or 'unjudged' with the reason"
            )
        if self.least is not None and self.most is not None and self.least > self.most:
            raise ValueError(
                f"'least', {self.least:g}, exceeds 'most', {self.most:g}; exchange them"
            )
        return self


Statement = Figure | ComparisonTable | Claim
"""What an experiment draws or compares: each names coordinates, and at most one group."""


def count_decimals(number: float) -> int:
    """Return the number of decimal places of a number, without trailing zeros."""
    return len(np.format_float_positional(number, trim="-").partition(".")[2])


def _check_names(figures: tuple[Figure, ...]) -> tuple[Figure, ...]:
    if twice := repeated(figure.name for figure in figures if figure.name):
        raise ValueError(f"two figures are called {twice!r}; rename one")
    return figures


def _check_distinct(values: tuple[float, ...]) -> tuple[float, ...]:
    if len(set(values)) < len(values):
        raise ValueError("holds a value twice; write each value once")
    return values


def _check_draws(draws: int) -> int:
    if draws == 1:
        raise ValueError("one draw has no variance; expected 0 or at least 2")
    return draws


Delta = Annotated[float, Field(gt=0, lt=1), AfterValidator(round_value)]
Epsilon = Annotated[float, Field(gt=0), AfterValidator(round_value)]
Kept = Literal[
    "query_variances", "privacy_profile", "covariance", "noise_matrix", "density", "prior", "trace"
]


_SHOWN_BLOCKS, _LINE_WIDTH = 4, 100
"""Limits of the repr of an experiment: number of blocks, and characters per line."""


class Experiment(_Strict):
    """An experiment: what to solve, and what to compare the results with.

    Attributes
    ----------
    name : str
        Short name; by default the name of the file.
    text : str
        The YAML text, with ``--set`` changes applied.
    digest : str
        Hash of the parsed content, which comments and layout do not affect.
    location : Location
        Location of the experiment, for error messages; ``location / "blocks" / 0`` locates a block.
    delta, epsilon : tuple of float
        Values of δ and ε at which the variables that depend on the budget are computed.
    reference : str
        Label of the reference: variance ratios compare mechanisms at its privacy cost. By default
        it is the certified optimum, so that a ratio says how far a mechanism is from the best
        possible one.
    keep : tuple of str
        Names of the arrays to store in addition to the numbers.
    show : tuple of str
        The variables that ``sweep show`` lists if there are no published numbers.
    time_limit : float, optional
        Time limit of one solve in seconds, for the mechanisms that have the option ``time_limit``.
    simulate : int
        Number of noise vectors to draw from every mechanism.
    warm_start : str, optional
        An axis along which every solve starts from the dual weights of the previous solve, if the
        mechanism supports this. Results change only within their certified gaps.
    published : tuple of ComparisonTable
        Tables that contain only numbers printed in the paper.
    closed_form : tuple of ComparisonTable
        Tables of numbers that we computed from a paper's formulas.
    claims : tuple of Claim
        Sentences of the paper that say how large numbers are, or that one is larger than another.
    quick : tuple of str
        ``--set`` changes with which the experiment takes only seconds.
    scorecard : bool
        Whether ``sweep scorecard`` judges the experiment if the command names no experiments.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    title: str = ""
    source: str = ""
    text: str
    digest: str
    location: Location = Field(repr=False)
    delta: Annotated[OneOrMany[Delta], AfterValidator(_check_distinct), _NOT_EMPTY] = (1e-5, 1e-9)
    epsilon: Annotated[OneOrMany[Epsilon], AfterValidator(_check_distinct)] = ()
    reference: str = "optimal"
    keep: OneOrMany[Kept] = ()
    show: OneOrMany[str] = ()
    time_limit: Annotated[float, Field(ge=0)] | None = None
    simulate: Annotated[int, Field(ge=0), AfterValidator(_check_draws)] = 0
    warm_start: str | None = None
    blocks: Annotated[Many[Block], _NOT_EMPTY]
    published: Many[ComparisonTable] = ()
    closed_form: Many[ComparisonTable] = ()
    claims: Many[Claim] = ()
    figures: Annotated[Many[Figure], AfterValidator(_check_names)] = ()
    quick: OneOrMany[str] = ()
    scorecard: bool = True

    def __repr__(self) -> str:
        lines = [f"Experiment {self.name}: {self.title}".rstrip(": ")]
        for block in self.blocks[:_SHOWN_BLOCKS]:
            written = block.workload.params.items()
            params = (f"{name}={label(list_values(None, value)[0])}" for name, value in written)
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


DERIVED = ("text", "digest", "location")
"""Fields of `Experiment` that are not keys of the file; they are computed during loading."""
