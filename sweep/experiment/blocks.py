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
    """A name with parameters, as written: a text, or a mapping with ``name``."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    name: str

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters that were written; an axis is a list, or ``{axis: [...]}``."""
        return self.model_extra or {}

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, written: object) -> object:
        return {"name": written} if isinstance(written, str) else written


class WrittenTargets(WrittenEntry):
    """A targets rule, and what it is called on its axis (by default its name)."""

    label: str | None = None

    @property
    def axis_label(self) -> str:
        """Its label."""
        return self.label or self.name


class WrittenMechanism(WrittenEntry):
    """A mechanism with options of its own.

    Attributes
    ----------
    preset : str, optional
        A named set of the mechanism's options.
    label : str, optional
        What it is called on the ``mechanism`` axis; by default its name, with the preset in
        parentheses.
    when : {"available"}, optional
        Leave it out where the mechanism (or its preset) does not exist, instead of an error.
    """

    preset: str | None = None
    label: str | None = None
    when: Literal["available"] | None = None

    @property
    def axis_label(self) -> str:
        """Its label."""
        return self.label or (f"{self.name} ({self.preset})" if self.preset else self.name)


def _one_or_many(written: object) -> str:
    return "many" if isinstance(written, list | tuple) else "one"


def many(written: object) -> object:
    """A list as a tuple; anything else as it is, to be refused."""
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
    options : Mapping[str, object]
        Options that all these mechanisms take; a list makes an axis.
    replicates : int
        How often; random workloads and targets get seed, seed + 1, ...
    zipped : tuple of tuple of str
        Axes that go together (key ``zip``); the first names the dimension.
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
