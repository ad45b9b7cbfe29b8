"""The form of an experiment: its keys, their types, and the defaults of those left out."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from sweep.experiment.blocks import Block, always_many, many
from sweep.experiment.canonical import rounded
from sweep.experiment.document import Origin, Place
from sweep.experiment.figures import Figure
from sweep.experiment.published import Claim, ComparisonTable


def _distinct(values: tuple[float, ...]) -> tuple[float, ...]:
    if len(set(values)) < len(values):
        raise ValueError("holds a value twice; write each value once")
    return values


_DISTINCT = (BeforeValidator(always_many), AfterValidator(_distinct))

Deltas = Annotated[
    tuple[Annotated[float, Field(gt=0, lt=1), AfterValidator(rounded)], ...],
    *_DISTINCT,
    Field(min_length=1),
]
Epsilons = Annotated[tuple[Annotated[float, Field(gt=0), AfterValidator(rounded)], ...], *_DISTINCT]


class Experiment(BaseModel):
    """A sweep: what to solve, and what to compare it with.

    Attributes
    ----------
    name : str
        Short name; by default that of the file. A store belongs to the experiment of one name.
    text : str
        The effective YAML, with ``--set`` applied.
    digest : str
        Hash of the content of that YAML.
    delta, epsilon : tuple of float
        The values of δ and ε for which the budget variables are stored.
    reference : str
        The label of the mechanism that the variance ratios refer to; by default the certified
        optimum, so that every mechanism's ratio says how far it is from what is possible.
    keep : tuple of str
        The arrays to store besides the numbers.
    show : tuple of str
        The variables that ``sweep show`` lists where there are no published numbers.
    time_limit : float, optional
        Seconds for one solve, for the mechanisms that take a limit.
    simulate : int
        Number of noise vectors to draw from every mechanism.
    warm_start : str, optional
        An axis along which every solve starts from its neighbour's dual weights, for the
        mechanisms that take them; no result changes by more than its gap.
    published : tuple of ComparisonTable
        The paper's tables: numbers that are printed there, and no others.
    closed_form : tuple of ComparisonTable
        Numbers of a paper's formulas, evaluated by us.
    claims : tuple of Claim
        The sentences of the paper that state an order or a size.
    quick : tuple of str
        Changes, as for ``--set``, with which it takes seconds.
    scorecard : bool
        Whether it is one of those that `sweep scorecard` judges if none is named.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True
    )

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    title: str = ""
    source: str = ""
    text: str
    digest: str
    origin: Origin = Field(repr=False)
    delta: Deltas = (1e-5, 1e-9)
    epsilon: Epsilons = ()
    reference: str = "optimal"
    keep: Annotated[
        tuple[
            Literal[
                "query_variances", "privacy_profile", "covariance", "noise_matrix", "prior", "trace"
            ],
            ...,
        ],
        BeforeValidator(always_many),
    ] = ()
    show: Annotated[tuple[str, ...], BeforeValidator(always_many)] = ()
    time_limit: Annotated[float, Field(ge=0)] | None = None
    simulate: Annotated[int, Field(ge=0)] = 0
    warm_start: str | None = None
    blocks: Annotated[tuple[Block, ...], BeforeValidator(many), Field(min_length=1)]
    published: Annotated[tuple[ComparisonTable, ...], BeforeValidator(many)] = ()
    closed_form: Annotated[tuple[ComparisonTable, ...], BeforeValidator(many)] = ()
    claims: Annotated[tuple[Claim, ...], BeforeValidator(many)] = ()
    figures: Annotated[tuple[Figure, ...], BeforeValidator(many)] = ()
    quick: Annotated[tuple[str, ...], BeforeValidator(always_many)] = ()
    scorecard: bool = True

    @property
    def place(self) -> Place:
        """The whole of it, for errors: ``place / "blocks" / 0``."""
        return Place(self.origin)

    @property
    def is_compared(self) -> bool:
        """Whether it has a number or a claim of a paper to compare with."""
        return bool(self.published or self.closed_form or self.claims)


DERIVED = ("text", "digest", "origin")
"""Fields of `Experiment` that are computed when it is loaded."""
