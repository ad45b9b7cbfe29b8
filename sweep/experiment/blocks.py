"""The blocks of an experiment: workloads, targets and mechanisms as written."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_validator,
)


class WrittenEntry(BaseModel):
    """A workload, as written: its name, or a mapping of ``name`` and parameters.

    Targets and mechanisms are written alike, with a few keys more.
    """

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    name: str

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters as written; an axis is a list, or ``{axis: [...]}``."""
        return self.model_extra or {}

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, written: object) -> object:
        return {"name": written} if isinstance(written, str) else written


class WrittenTargets(WrittenEntry):
    """A targets rule, as written."""

    label: str | None = None

    @property
    def axis_label(self) -> str:
        """The label on the ``targets`` axis."""
        return self.label or self.name


class WrittenMechanism(WrittenEntry):
    """A mechanism, as written, with its own options.

    Attributes
    ----------
    preset : str, optional
        A named set of the mechanism's options.
    label : str, optional
        Its label on the ``mechanism`` axis; by default its name, with the preset in parentheses.
    when : {"available"}, optional
        Leave the mechanism out if it (or its preset) does not exist, instead of failing.
    """

    preset: str | None = None
    label: str | None = None
    when: Literal["available"] | None = None

    @property
    def axis_label(self) -> str:
        """The label on the ``mechanism`` axis."""
        return self.label or (f"{self.name} ({self.preset})" if self.preset else self.name)


def _one_or_many(written: object) -> str:
    return "many" if isinstance(written, list | tuple) else "one"


def many(written: object) -> object:
    """A list as a tuple; anything else unchanged, for pydantic to refuse."""
    return tuple(written) if isinstance(written, list) else written


def always_many(written: object) -> object:
    """A list as a tuple; anything else as a tuple of itself."""
    return many(written) if isinstance(written, list | tuple) else (written,)


Names = Annotated[tuple[str, ...], BeforeValidator(many)]


class Block(BaseModel):
    """A product of axes: workload parameters x targets x replicates x mechanisms.

    Attributes
    ----------
    group : str
        The group of the dataset; by default the workload's name. Blocks of one group are
        united.
    workload : WrittenEntry
        A workload family and its parameters; a list makes an axis.
    targets : WrittenTargets or tuple of WrittenTargets
        One rule, or several: an axis.
    mechanism : tuple of WrittenMechanism
        The axis ``mechanism``.
    neighbours : object
        Which databases the mechanisms must not tell apart, as `as_neighbours`
        reads it; a list makes an axis.
    options : Mapping[str, object]
        Options that all these mechanisms take; a list makes an axis.
    replicates : int
        Number of repetitions; random workloads and targets get seed, seed + 1, ...
    zipped : tuple of tuple of str
        Axes that vary together (key ``zip``); the first names the dimension.
    where : str, optional
        A condition over the coordinates; points where it is false are left out.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    group: Annotated[str, Field(min_length=1, pattern="^[^/]+$")]
    workload: WrittenEntry
    targets: Annotated[
        Annotated[WrittenTargets, Tag("one")]
        | Annotated[
            tuple[WrittenTargets, ...],
            BeforeValidator(many),
            Field(min_length=1),
            Tag("many"),
        ],
        Discriminator(_one_or_many),
    ] = WrittenTargets(name="uniform")
    mechanism: Annotated[
        tuple[WrittenMechanism, ...], BeforeValidator(always_many), Field(min_length=1)
    ]
    neighbours: Any = "add-remove"
    options: Mapping[str, Any] = {}
    replicates: Annotated[int, Field(ge=1)] = 1
    zipped: Annotated[tuple[Names, ...], BeforeValidator(many), Field(alias="zip")] = ()
    where: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _default_group(cls, written: object) -> object:
        if not isinstance(written, Mapping) or "group" in written:
            return written
        workload = written.get("workload")
        name = workload.get("name") if isinstance(workload, Mapping) else workload
        return {**written, "group": name} if isinstance(name, str) else written
