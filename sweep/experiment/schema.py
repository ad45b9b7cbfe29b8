"""An experiment: what a YAML file says, checked for form, before it becomes cells."""

import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
)

from sweep.errors import ExperimentError
from sweep.experiment import document as documents
from sweep.experiment import overrides as changes
from sweep.experiment.blocks import Block, always_many, many
from sweep.experiment.canonical import digest, rounded
from sweep.experiment.document import Document, Origin
from sweep.experiment.files import text_of
from sweep.experiment.published import Claim, PublishedTable
from workloads.parameters import nearest

_SHIPPED = "sweep.experiments"
_DERIVED = ("text", "digest", "origin")


def _distinct(values: tuple[float, ...]) -> tuple[float, ...]:
    if len(set(values)) < len(values):
        raise ValueError("holds a value twice; name each value once")
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
    name, title, source : str
        Its short name, one line on it, and the paper and table it comes from.
    text, digest : str
        The effective YAML, with ``--set`` applied, and the hash of its content.
    origin : Origin
        Where each value was written, for error messages.
    delta, epsilon : tuple of float
        For which δ and ε the privacy variables are stored.
    reference : str
        The label of the mechanism that the variance ratios refer to; by default the certified
        optimum, so that every mechanism's ratio says how far it is from what is possible.
    keep : tuple of str
        Which arrays to store besides the numbers.
    show : tuple of str
        The variables that ``sweep show`` lists where there are no published numbers.
    time_limit : float, optional
        Seconds for one solve, for the mechanisms that take a limit.
    simulate : int
        How many noise vectors to draw from every mechanism.
    warm_start : str, optional
        An axis along which every solve begins at its neighbour's dual weights, for the
        mechanisms that take them; no result changes beyond its gap.
    blocks : tuple of Block
    published : tuple of PublishedTable
        The paper's tables.
    claims : tuple of Claim
        What the paper's text says about numbers.
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
        tuple[Literal["query_variances", "privacy_profile", "covariance", "noise_matrix"], ...],
        BeforeValidator(always_many),
    ] = ()
    show: Annotated[tuple[str, ...], BeforeValidator(always_many)] = ()
    time_limit: Annotated[float, Field(ge=0)] | None = None
    simulate: Annotated[int, Field(ge=0)] = 0
    warm_start: str | None = None
    blocks: Annotated[tuple[Block, ...], BeforeValidator(many), Field(min_length=1)]
    published: Annotated[tuple[PublishedTable, ...], BeforeValidator(many)] = ()
    claims: Annotated[tuple[Claim, ...], BeforeValidator(many)] = ()


def load_experiment(name_or_path: str | Path, overrides: changes.Settings = ()) -> Experiment:
    """Read an experiment that ships, or a YAML file, and check its form.

    Parameters
    ----------
    name_or_path : str or pathlib.Path
        A name of `experiments`, or the path of a YAML file.
    overrides : sequence of str or mapping
        Changes, as on the command line: ``["d=64,128", "replicates=3"]`` or
        ``{"d": [64, 128]}``; see `sweep.experiment.overrides.apply`.

    Returns
    -------
    Experiment

    Raises
    ------
    ExperimentError
        If there is no such experiment, or it is not valid; with file, line and key.
    """
    file, text = _find(name_or_path)
    return parse_experiment(text, file, overrides)


def parse_experiment(text: str, file: str, overrides: changes.Settings = ()) -> Experiment:
    """An experiment from its YAML text; ``file`` is what error messages call it.

    Raises
    ------
    ExperimentError
        If it is not valid; with file, line and key.
    """
    written = documents.read(text, file)
    document = changes.apply(written, overrides) if overrides else written
    content = document.plain()
    for key in content:
        if key not in _FILE_KEYS:
            raise document.origin.error((key,), f"no such key; {nearest(key, _FILE_KEYS)}")
    named = {"name": Path(file).stem, **content}
    try:
        return Experiment(
            **named,
            text=document.text() if overrides else text,
            digest=digest(named),
            origin=document.origin,
        )
    except ValidationError as error:
        raise _explained(error, document) from error


def experiments() -> Mapping[str, str]:
    """The experiments that ship: a line on each, by name."""
    files = [file for file in resources.files(_SHIPPED).iterdir() if file.name.endswith(".yaml")]
    titles = {file.name.removesuffix(".yaml"): _title(file.read_text("utf-8")) for file in files}
    return MappingProxyType(dict(sorted(titles.items(), key=lambda item: _natural(item[0]))))


def _title(text: str) -> str:
    line = next((line for line in text.splitlines() if line.startswith("title:")), "title: ''")
    return str(documents.read(line, "title").tree["title"])


def _natural(name: str) -> list[tuple[int, str]]:
    """Sorts table9 before table10."""
    parts = re.split(r"(\d+)", name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _find(name_or_path: str | Path) -> tuple[str, str]:
    try:
        shipped = resources.files(_SHIPPED) / f"{name_or_path}.yaml"
        if str(name_or_path) == Path(name_or_path).name and shipped.is_file():
            return f"{name_or_path}.yaml", shipped.read_text("utf-8")
        return str(name_or_path), text_of(Path(name_or_path))
    except FileNotFoundError as error:
        raise ExperimentError(
            f"no experiment {str(name_or_path)!r}: neither a file nor one that ships; "
            f"{nearest(str(name_or_path), experiments())}"
        ) from error
    except (OSError, ValueError, RuntimeError) as error:
        not_text = isinstance(error, UnicodeDecodeError)
        reason = "not UTF-8 text" if not_text else getattr(error, "strerror", None) or error
        raise ExperimentError(
            f"experiment file {str(name_or_path)!r} cannot be read ({reason}); give the path "
            "of a YAML file"
        ) from error


_FILE_KEYS = tuple(name for name in Experiment.model_fields if name not in _DERIVED)


def _keys(path: documents.Path) -> tuple[str, ...]:
    """The keys that the mapping that holds ``path`` may have."""
    models: Mapping[object, type[BaseModel]] = {
        "blocks": Block,
        "published": PublishedTable,
        "claims": Claim,
    }
    model = models.get(path[0])
    fields = model.model_fields if model else {}
    return tuple(field.alias or name for name, field in fields.items())


def _explained(error: ValidationError, document: Document) -> ExperimentError:
    """The first complaint of pydantic, in our words."""
    found = error.errors(include_url=False)
    first = next((one for one in found if one["type"] == "extra_forbidden"), found[0])
    path = _real(first["loc"], document.plain())
    said = first["msg"].removeprefix("Value error, ")
    match first["type"]:
        case "extra_forbidden":
            message = f"no such key; {nearest(str(path[-1]), _keys(path))}"
        case "missing":
            message = f"needs {first['loc'][-1]!r}"
        case "value_error":
            message = said
        case "too_short":
            message = "is empty; expected at least one"
        case "string_pattern_mismatch":
            message = f"{first['input']!r} is no name; expected letters, digits, '.', '_' and '-'"
        case _:
            message = f"{said[0].lower()}{said[1:]}, not {first['input']!r}".replace(
                "input should be", "should be"
            )
    return document.origin.error(path, message)


def _real(loc: Sequence[str | int], content: Any) -> documents.Path:
    """The part of a pydantic location that leads through the file."""
    path: list[str | int] = []
    for part in loc:
        at_key = isinstance(content, dict) and part in content
        at_index = isinstance(content, list) and isinstance(part, int) and part < len(content)
        if at_key or at_index:
            content = content[part]
            path.append(part)
    return tuple(path)
