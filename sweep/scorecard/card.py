"""The scorecard: every published number and claim, what was measured, and the verdict."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import xarray as xr
from pydantic import BaseModel, ConfigDict, ValidationError

from sweep.dataset import reading
from sweep.dataset.pivots import label_text, labels_of
from sweep.dataset.reading import Results, open_dataset
from sweep.errors import SweepError
from sweep.experiment.canonical import Scalar
from sweep.experiment.loading import experiments, load_experiment
from sweep.experiment.schema import Claim, Experiment
from sweep.experiment.variables import OF_REFERENCE
from sweep.grid.cells import REPLICATE
from sweep.grid.expansion import lay_out
from sweep.grid.grids import Grid, coordinates
from sweep.scorecard.claims import Judgement, judge, of_numbers
from sweep.scorecard.numbers import Compared, compare
from sweep.store.folder import open_
from sweep.store.records import Status

_Verdict = TypeVar("_Verdict", Compared, Judgement)
_DIGITS = 7
_MEASURED = ("median", "least", "most", "chance", "gap", "factor", "reference_factor")
_LISTED_LABELS = 4


class Row(BaseModel):
    """A row of a scorecard, immutable."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Run(Row):
    """How an experiment was run: at which labels, by which code, and how its cells ended."""

    experiment: str
    title: str
    source: str
    run_at: str
    statuses: Mapping[str, int] = {}
    revision: str = ""
    machine: str = ""


class NumberRow(Row):
    """A number of a paper, and the table that contains it.

    Attributes
    ----------
    kind : str
        "printed", "closed form", or "other reading" of a text whose judged reading is elsewhere.
    """

    experiment: str
    kind: str
    table: str
    source: str
    variable: str
    number: Compared
    cause: str
    slip: str


class ClaimRow(Row):
    """A claim of a paper and its verdict."""

    experiment: str
    claim: Claim
    judgement: Judgement


class Scorecard(Row):
    """Three tables: how each experiment was run, the papers' numbers, and the papers' claims."""

    runs: tuple[Run, ...]
    numbers: tuple[NumberRow, ...]
    claims: tuple[ClaimRow, ...]

    def of(self, *experiments: str) -> "Scorecard":
        """The part of the scorecard about some experiments."""
        parts = {
            name: tuple(row for row in rows if row.experiment in experiments) for name, rows in self
        }
        return Scorecard(**parts)

    def updated(self, newer: "Scorecard") -> "Scorecard":
        """The scorecard with the rows of the newer scorecard's experiments replaced by its rows."""
        order = {name: at for at, name in enumerate(experiments())}
        replaced = {run.experiment for run in newer.runs}
        kept = self.of(*(run.experiment for run in self.runs if run.experiment not in replaced))
        parts = {
            name: tuple(sorted(rows, key=lambda row: order.get(row.experiment, len(order))))
            for name, rows in joined([kept, newer])
        }
        return Scorecard(**parts)

    @property
    def unfinished(self) -> int:
        """Number of cells that failed, timed out, were lost or are pending."""
        quiet = (Status.OK.label, Status.NOT_APPLICABLE.label)
        statuses = (item for run in self.runs for item in run.statuses.items())
        return sum(count for name, count in statuses if name not in quiet)

    def text(self) -> str:
        """The scorecard as JSON, with one row per line."""
        parts = [
            f'"{name}": [\n'
            + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
            + "\n]"
            for name, rows in self.model_dump(mode="json", exclude_defaults=True).items()
        ]
        return "{\n" + ",\n".join(parts) + "\n}\n"


def read(path: Path) -> Scorecard:
    """The scorecard in a file.

    Raises
    ------
    SweepError
        If the file cannot be read, or contains something else.
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


def judged(names: Sequence[str]) -> dict[str, Experiment]:
    """The experiments with these names or files; by default all shipped ones that can be judged."""
    found = {name: load_experiment(name) for name in names or experiments()}
    return {n: one for n, one in found.items() if names or (one.scorecard and one.is_compared)}


def score(wanted: Sequence[Experiment], stores: Path) -> Scorecard:
    """The scorecard of the stores in a folder, each named after its experiment.

    Nothing is run: an experiment without a store or a dataset counts as not run. ``wanted`` are
    experiments with all the sizes of the papers.

    Raises
    ------
    ExperimentError
        If an experiment cannot be laid out.
    StoreError
        If a store is damaged, or holds another experiment.
    """
    return joined([_scored(experiment, stores) for experiment in wanted])


def joined(cards: Sequence[Scorecard]) -> Scorecard:
    """Several scorecards as one."""
    fields = Scorecard.model_fields
    parts = {name: tuple(row for card in cards for row in getattr(card, name)) for name in fields}
    return Scorecard(**parts)


def _scored(experiment: Experiment, stores: Path) -> Scorecard:
    name, store, grids = experiment.name, stores / experiment.name, lay_out(experiment)
    there = store.exists() and open_(store, name).dataset.exists
    results = open_dataset(store) if there else None
    groups, others = ({}, []) if results is None else comparable(experiment, grids, results)
    drawn = {block.group for block in experiment.blocks if block.replicates > 1}
    first = experiment.blocks[0].group
    kinds = {"printed": experiment.published, "closed form": experiment.closed_form}
    numbers = [
        NumberRow(
            experiment=name,
            kind="other reading" if table.reading else kind,
            table=table.title or table.variable,
            source=table.source,
            variable=table.variable,
            number=_rounded(replace(number, at={**table.at, **number.at})),
            cause=table.cause,
            slip=table.slip,
        )
        for kind, tables in kinds.items()
        for table in tables
        if not table.repeats
        for group in [table.group or first]
        for number in compare(
            groups.get(group, xr.Dataset()), table, experiment.reference, drawn=group in drawn
        )
    ]
    printed = [row.number for row in numbers if row.kind == "printed"]
    claims = []
    for claim in experiment.claims:
        found = judge(groups.get(claim.group or first), claim)
        found = of_numbers(claim, printed) if claim.repeats_number else found
        claims.append(ClaimRow(experiment=name, claim=claim, judgement=_rounded(found)))
    attributes = {} if results is None else results.attrs
    run = Run(
        experiment=name,
        title=experiment.title,
        source=experiment.source,
        run_at="; ".join([*_run_at(experiment, grids, groups), *others]),
        statuses=_statuses(groups),
        revision=str(attributes.get("git_revision", "")),
        machine=str(attributes.get("cpu_model", "")),
    )
    return Scorecard(runs=(run,), numbers=tuple(numbers), claims=tuple(claims))


def _rounded(found: _Verdict) -> _Verdict:
    """The verdict with its numbers rounded to seven significant digits.

    That is more than papers print, and gives equal numbers on all machines.
    """
    measured = {name: getattr(found, name) for name in _MEASURED if hasattr(found, name)}
    short: dict[str, Any] = {
        k: float(f"{v:.{_DIGITS}g}") for k, v in measured.items() if v is not None
    }
    return replace(found, **short)


def comparable(
    experiment: Experiment, grids: Sequence[Grid], results: Results
) -> tuple[dict[str, xr.Dataset], list[str]]:
    """The results by which to judge an experiment, by group, and remarks on the other results.

    A store may hold the same experiment with other targets or options under the same labels; cells
    with other solve keys are therefore left out, as are ratios to another reference and other
    budgets.
    """
    groups: dict[str, xr.Dataset] = {}
    others = 0
    stored, known = reading.experiment_of(results), reading.groups(results)
    for grid in grids:
        data = known.get(grid.group)
        if data is None:
            continue
        there = data["status"] != Status.ABSENT
        solves = grid.cells.keys("solve").astype(np.str_)
        alike = there & np.isin(data["solve"], solves)
        others += int((there & ~alike).sum())
        if alike.any():
            status = data["status"].where(alike, np.int8(Status.ABSENT))
            groups[grid.group] = _own_part(experiment, data.assign(status=status), stored)
    remarks = []
    if others:
        remarks.append(f"not compared: {others:,} cell{'s' * (others != 1)} of other problems")
    if stored.reference != experiment.reference:
        remarks.append(
            f"not compared: ratios to {stored.reference} instead of {experiment.reference}"
        )
    return groups, remarks


def _own_part(experiment: Experiment, data: xr.Dataset, stored: Experiment) -> xr.Dataset:
    """The labels with cells and the experiment's budgets; ratios only to its own reference."""
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


def _run_at(
    experiment: Experiment, grids: Sequence[Grid], groups: Mapping[str, xr.Dataset]
) -> list[str]:
    """In words, the labels that were run and those that were not, along axes that lack some."""
    if not groups:
        return ["not run"]
    wanted: dict[str, dict[Scalar, bool]] = {}
    for grid in grids:
        data = groups.get(grid.group)
        for axis, labels in coordinates(experiment, grid).items():
            if data is not None and axis in data.coords:
                run = wanted.setdefault(axis, {})
                have = labels_of(data, axis)
                run |= {label: run.get(label, False) or label in have for label in labels}
    parts = []
    for axis, known in wanted.items():
        have, gone = ([at for at, has in known.items() if has is it] for it in (True, False))
        if axis == REPLICATE and len(have) > 1:
            parts.append(f"{len(have)} draws")
        elif gone:
            parts.append(f"{axis} = {listed(have)} (not {listed(gone)})")
    return parts or ["all sizes"]


def listed(labels: Sequence[Scalar]) -> str:
    """Labels in words; if there are many, only the first and the last."""
    shown = [label_text(label) for label in labels]
    return ", ".join(shown) if len(shown) <= _LISTED_LABELS else f"{shown[0]} … {shown[-1]}"


def _statuses(groups: Mapping[str, xr.Dataset]) -> dict[str, int]:
    counts: Counter[int] = Counter()
    for data in groups.values():
        counts.update(data["status"].to_numpy().ravel().tolist())
    return {Status(s).label: n for s, n in sorted(counts.items()) if s != Status.ABSENT}
