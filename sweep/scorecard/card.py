"""The scorecard: every published number and claim, what was measured, and the verdict."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from sweep.dataset import reading
from sweep.dataset.pivots import labels_of, places_text
from sweep.dataset.reading import Results, open_dataset
from sweep.errors import SweepError
from sweep.experiment.canonical import Scalar
from sweep.experiment.loading import experiments
from sweep.experiment.schema import Experiment
from sweep.experiment.variables import OF_REFERENCE
from sweep.grid.cells import REPLICATE
from sweep.grid.expansion import lay_out
from sweep.grid.grids import Grid, coordinates
from sweep.scorecard.claims import Verdict, judge, of_numbers
from sweep.scorecard.numbers import Agreement, compare
from sweep.store.folder import open_
from sweep.store.records import Status


class Row(BaseModel):
    """A row of a scorecard, immutable."""

    model_config = ConfigDict(frozen=True, extra="forbid")


_Row = TypeVar("_Row", bound=Row)
_DIGITS = 7


def _short(value: float | None) -> float | None:
    """Rounded to seven significant digits: more than papers print, equal on all machines."""
    return None if value is None else float(f"{value:.{_DIGITS}g}")


Short = Annotated[float | None, AfterValidator(_short)]


class Run(Row):
    """How an experiment was run.

    Attributes
    ----------
    sizes, left_out : Mapping[str, list of Scalar]
        The labels that were run, and those of the experiment that were not, along every axis that
        has more than one.
    without, fewer_seeds : tuple of str
        Of the labels that were run, those where a mechanism was not, and those with fewer seeds
        than others; see `without` and `fewer_seeds`.
    not_compared : tuple of str
        What its store holds besides: other problems than those of its file.
    """

    experiment: str
    title: str
    source: str
    sizes: Mapping[str, list[Scalar]] = {}
    left_out: Mapping[str, list[Scalar]] = {}
    without: tuple[str, ...] = ()
    fewer_seeds: tuple[str, ...] = ()
    not_compared: tuple[str, ...] = ()
    statuses: Mapping[str, int] = {}
    revision: str = ""
    machine: str = ""
    versions: str = ""


class NumberRow(Row):
    """A number of a paper; see `sweep.scorecard.numbers.Compared`.

    Attributes
    ----------
    kind : str
        "printed", "closed form", or "other reading" of a text whose numbers are judged elsewhere.
    """

    experiment: str
    kind: str
    table: str
    source: str
    variable: str
    at: Mapping[str, Scalar]
    stated: float
    printed: str
    rounding: float
    median: Short
    least: Short
    most: Short
    draws: int
    chance: Short
    gap: Short
    factor: Short
    reference_factor: Short
    difference: Short
    repeats: str
    verdict: Agreement
    reason: str
    cause: str
    slip: str

    @property
    def printed_range(self) -> tuple[float, float]:
        """The numbers that are printed as this one."""
        return self.stated - self.rounding, self.stated + self.rounding


class ClaimRow(Row):
    """A claim of a paper; see `sweep.experiment.schema.Claim` and `judge`."""

    experiment: str
    text: str
    source: str
    reading: str
    part: str
    variable: str | None
    at: Mapping[str, tuple[Scalar, ...]]
    over: Scalar | None
    along: str | None
    states_least: float | None
    states_most: float | None
    share: float
    least: Short
    most: Short
    seeds: int
    held: int
    points: int
    against: int
    verdict: Verdict
    reason: str
    cause: str
    slip: str


class Scorecard(Row):
    """Three tables: how each experiment was run, its numbers, and its claims."""

    runs: tuple[Run, ...]
    numbers: tuple[NumberRow, ...]
    claims: tuple[ClaimRow, ...]

    def of(self, *experiments: str) -> "Scorecard":
        """The part about some experiments."""
        return Scorecard(
            runs=tuple(run for run in self.runs if run.experiment in experiments),
            numbers=tuple(number for number in self.numbers if number.experiment in experiments),
            claims=tuple(claim for claim in self.claims if claim.experiment in experiments),
        )

    def updated(self, newer: "Scorecard") -> "Scorecard":
        """The scorecard with the experiments of another one in place of its own."""
        replaced = {run.experiment for run in newer.runs}
        kept = self.of(*(run.experiment for run in self.runs if run.experiment not in replaced))
        order = list(experiments())
        names = [run.experiment for run in (*kept.runs, *newer.runs)]
        names.sort(key=lambda name: order.index(name) if name in order else len(order))
        parts = [newer.of(name) if name in replaced else kept.of(name) for name in names]
        return joined(parts)

    @property
    def unfinished(self) -> int:
        """Number of cells that failed, timed out, were lost or are pending."""
        quiet = (Status.OK.label, Status.NOT_APPLICABLE.label)
        statuses = (item for run in self.runs for item in run.statuses.items())
        return sum(count for name, count in statuses if name not in quiet)

    def text(self) -> str:
        """The scorecard as JSON, with one row in a line."""
        parts = [
            f'"{name}": [\n'
            + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
            + "\n]"
            for name, rows in self.model_dump(mode="json").items()
        ]
        return "{\n" + ",\n".join(parts) + "\n}\n"


def read(path: Path) -> Scorecard:
    """The scorecard in a file.

    Raises
    ------
    SweepError
        If there is none, or the file holds something else.
    """
    try:
        return Scorecard.model_validate_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SweepError(
            f"scorecard {str(path)!r} cannot be read ({error.strerror}); "
            "give a FILE.json of 'sweep scorecard --output'"
        ) from error
    except (ValidationError, UnicodeDecodeError) as error:
        raise SweepError(
            f"{str(path)!r} is not a scorecard of this version; "
            "write it again with 'sweep scorecard --output'"
        ) from error


def score(wanted: Sequence[Experiment], stores: Path) -> Scorecard:
    """The scorecard of what the stores hold now, in a folder by the names of the experiments.

    Nothing is run: what has no store, or a store without a dataset, counts as not run. The
    experiments have all the sizes of the papers.

    Raises
    ------
    ExperimentError
        If an experiment does not expand.
    StoreError
        If a store is damaged, or holds another experiment.
    """
    return joined([_scored(experiment, stores) for experiment in wanted])


def joined(cards: Sequence[Scorecard]) -> Scorecard:
    """Several scorecards as one."""
    return Scorecard(
        runs=tuple(run for card in cards for run in card.runs),
        numbers=tuple(row for card in cards for row in card.numbers),
        claims=tuple(row for card in cards for row in card.claims),
    )


def _scored(experiment: Experiment, stores: Path) -> Scorecard:
    name, store, grids = experiment.name, stores / experiment.name, lay_out(experiment)
    there = store.exists() and open_(store, name).dataset.exists
    results = open_dataset(store) if there else None
    groups, others = ({}, ()) if results is None else comparable(experiment, grids, results)
    drawn = {block.group for block in experiment.blocks if block.replicates > 1}
    first = experiment.blocks[0].group
    tables = [*(("printed", table) for table in experiment.published)]
    tables += [("closed form", table) for table in experiment.closed_form]
    judged = [
        (
            "other reading" if table.reading else kind,
            table,
            compare(
                groups.get(table.group or first, xr.Dataset()),
                table,
                experiment.reference,
                drawn=(table.group or first) in drawn,
            ),
        )
        for kind, table in tables
        if not table.repeats
    ]
    numbers = [
        _row(
            NumberRow,
            table,
            compared,
            experiment=name,
            kind=kind,
            table=table.title or table.variable,
            at={**table.at, **compared.at},
            verdict=compared.agreement,
            repeats=compared.repeats,
        )
        for kind, table, found in judged
        for compared in found
    ]
    printed = [
        replace(one, at={**table.at, **one.at})
        for kind, table, found in judged
        if kind == "printed"
        for one in found
    ]
    claims = [
        _row(
            ClaimRow,
            claim,
            of_numbers(claim, printed)
            if claim.repeats_number
            else judge(groups.get(claim.group or first), claim),
            experiment=name,
            states_least=claim.least,
            states_most=claim.most,
        )
        for claim in experiment.claims
    ]
    run = run_of(experiment, grids, groups, {} if results is None else dict(results.attrs))
    run = run.model_copy(update={"not_compared": others})
    return Scorecard(runs=(run,), numbers=tuple(numbers), claims=tuple(claims))


def _row(row: type[_Row], *held: object, **more: Any) -> _Row:
    """A row of the fields that these objects have, the last one first, and of more."""
    fields = {
        name: getattr(part, name)
        for part in held
        for name in row.model_fields
        if hasattr(part, name)
    }
    return row(**fields | more)


def comparable(
    experiment: Experiment, grids: Sequence[Grid], results: Results
) -> tuple[dict[str, xr.Dataset], tuple[str, ...]]:
    """The results that an experiment's numbers and claims are about, by group, and what is not.

    A store may hold the same experiment with other targets or options under the same labels: its
    cells have other solve keys. Ratios to another reference are left out, as are other budgets.
    """
    groups: dict[str, xr.Dataset] = {}
    others = 0
    stored, known = reading.experiment_of(results), reading.groups(results)
    for grid in grids:
        data = known.get(grid.group)
        if data is None:
            continue
        there = data["status"] != Status.ABSENT
        alike = there & np.isin(data["solve"], grid.cells.solve_keys.astype(np.str_))
        others += int((there & ~alike).sum())
        if alike.any():
            status = data["status"].where(alike, np.int8(Status.ABSENT))
            groups[grid.group] = _of(experiment, data.assign(status=status), stored)
    remarks = [f"{others:,} cell{'s' * (others != 1)} of other problems" if others else ""]
    if stored.reference != experiment.reference:
        remarks.append(f"ratios to {stored.reference} instead of {experiment.reference}")
    return groups, tuple(filter(None, remarks))


def _of(experiment: Experiment, data: xr.Dataset, stored: Experiment) -> xr.Dataset:
    """The labels that have cells, the budgets of the experiment, and ratios to its reference."""
    there = data["status"] != Status.ABSENT
    kept = {
        str(dim): np.flatnonzero(there.any([other for other in there.dims if other != dim]))
        for dim in there.dims
    }
    for name in ("epsilon", "delta"):
        if name in data.dims and name not in kept:
            kept[name] = np.flatnonzero(np.isin(labels_of(data, name), getattr(experiment, name)))
    if stored.reference != experiment.reference:
        data = data.drop_vars(OF_REFERENCE, errors="ignore")
    return data.isel(kept)


def run_of(
    experiment: Experiment,
    grids: Sequence[Grid],
    groups: Mapping[str, xr.Dataset],
    attributes: Mapping[Any, Any],
) -> Run:
    """How an experiment was run, by the datasets of its groups and the attributes of all."""
    sizes: dict[str, list[Scalar]] = {}
    left_out: dict[str, list[Scalar]] = {}
    statuses: Counter[str] = Counter()
    missing: list[str] = []
    fewer: list[str] = []
    for grid in grids:
        data = groups.get(grid.group)
        if data is not None:
            missing += without(grid, data)
            fewer += fewer_seeds(grid, data)
            states, counts = np.unique(data["status"].to_numpy(), return_counts=True)
            statuses.update(
                {Status(s).label: int(n) for s, n in zip(states.tolist(), counts, strict=True)}
            )
        for axis, labels in coordinates(experiment, grid).items():
            if len(labels) < 2 or (data is not None and axis not in data.coords):
                continue
            have = [] if data is None else labels_of(data, axis)
            sizes[axis] = _joined(sizes.get(axis, []), have)
            gone = [label for label in labels if label not in have]
            if data is not None and gone:
                left_out[axis] = _joined(left_out.get(axis, []), gone)
    statuses.pop(Status.ABSENT.label, None)
    return Run(
        experiment=experiment.name,
        title=experiment.title,
        source=experiment.source,
        sizes=sizes if groups else {},
        left_out=left_out,
        without=tuple(dict.fromkeys(missing)),
        fewer_seeds=tuple(dict.fromkeys(fewer)),
        statuses=dict(statuses),
        revision=str(attributes.get("git_revision", "")),
        machine=str(attributes.get("cpu_model", "")),
        versions=str(attributes.get("package_versions", "")),
    )


def _joined(known: Sequence[Scalar], more: Iterable[Scalar]) -> list[Scalar]:
    return list(dict.fromkeys([*known, *more]))


def without(grid: Grid, data: xr.Dataset) -> list[str]:
    """Which mechanisms the grid has at sizes where the dataset has none of their cells.

    Mechanisms and sizes that the dataset does not have at all are left out.
    """
    wanted = [family.first.coords for family in grid.cells.used]
    missing = []
    for axis in _sizes(grid, data):
        in_grid = {(coords["mechanism"], coords[axis]) for coords in wanted}
        known = _present(data, "mechanism", axis)
        for mechanism, there in zip(labels_of(data, "mechanism"), known, strict=True):
            labels = labels_of(data, axis)
            gone = [label for label, has in zip(labels, there.tolist(), strict=True) if not has]
            gone = [label for label in gone if (mechanism, label) in in_grid]
            missing += [f"{mechanism} at {places_text(axis, gone)}"] if gone else []
    return missing


def fewer_seeds(grid: Grid, data: xr.Dataset) -> list[str]:
    """How many seeds there are at sizes that have fewer than others."""
    found = []
    for axis in _sizes(grid, data) if REPLICATE in data.dims else []:
        counts = _present(data, axis, REPLICATE).sum(axis=1).tolist()
        places: dict[int, list[Scalar]] = {}
        for label, count in zip(labels_of(data, axis), counts, strict=True):
            places.setdefault(count, []).append(label)
        most = max(counts)
        found += [
            f"{n} at {places_text(axis, labels)}" for n, labels in places.items() if 0 < n < most
        ]
    return found


def _sizes(grid: Grid, data: xr.Dataset) -> list[str]:
    names = (axis.name for axis in grid.axes)
    return [name for name in names if name in data.dims and name not in ("mechanism", REPLICATE)]


def _present(data: xr.Dataset, first: str, second: str) -> NDArray[np.bool_]:
    """Whether there are cells at two labels, shape (labels of the first, of the second)."""
    there = data["status"] != Status.ABSENT
    for name in {"mechanism"}.difference(there.dims):
        there = there.expand_dims(name)
    others = [name for name in there.dims if name not in (first, second)]
    return np.asarray(there.any(others).transpose(first, second).to_numpy())
