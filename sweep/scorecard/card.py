"""The scorecard: every published number and claim, what was measured, and the verdict."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import xarray as xr
from pydantic import BaseModel, ConfigDict, ValidationError

from sweep.cluster.specification import ClusterSpec
from sweep.dataset import frames
from sweep.dataset.build import build_group
from sweep.dataset.pivots import label_text, labels_of
from sweep.dataset.reading import LARGE_TEXTS, open_dataset
from sweep.errors import SweepError
from sweep.events import Listener
from sweep.experiment.canonical import Scalar
from sweep.experiment.files import list_experiments, read_text_file
from sweep.experiment.loading import load_experiment
from sweep.experiment.schema import Claim, Experiment
from sweep.grid.cells import REPLICATE
from sweep.grid.expansion import lay_out
from sweep.grid.grids import unite_cells
from sweep.runner import commands
from sweep.runner.selection import STALE
from sweep.runner.status import status
from sweep.scorecard.claims import Judgement, judge, judge_by_numbers
from sweep.scorecard.numbers import NOT_RUN, OTHER_READING, Compared, compare
from sweep.state.stored import count_statuses
from sweep.store.folder import open_
from sweep.store.journal import Journal
from sweep.store.records import Status

_ROW = re.compile(r'(?=\{"(?:experiment|at)":)')
"""Matches the beginning of a row in a scorecard's JSON."""
_LISTED_LABELS = 4
"""Longer lists of labels are shortened to the first and the last, to keep sentences short."""


@dataclass(frozen=True)
class Run:
    """How an experiment was run: at which labels, by which code, and with which cell statuses."""

    experiment: str
    title: str
    source: str
    run_at: str
    statuses: Mapping[str, int] = field(default_factory=dict)
    revision: str = ""
    machine: str = ""


@dataclass(frozen=True)
class ClaimRow:
    """A claim of a paper and its verdict."""

    experiment: str
    claim: Claim
    judgement: Judgement


class Scorecard(BaseModel):
    """Three tables: how each experiment was run, the papers' numbers, and the papers' claims."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    runs: tuple[Run, ...]
    numbers: tuple[Compared, ...]
    claims: tuple[ClaimRow, ...]

    def of(self, *list_experiments: str) -> "Scorecard":
        """Return the scorecard's rows on these experiments, in this order."""
        return take(dict.fromkeys(list_experiments, self))

    def updated(self, newer: "Scorecard") -> "Scorecard":
        """Return a copy in which the rows of ``newer`` replace all rows on the same experiments."""
        replaced = {run.experiment for run in newer.runs}
        order = dict.fromkeys(
            [*list_experiments(), *(run.experiment for run in self.runs), *replaced]
        )
        return take({name: newer if name in replaced else self for name in order})

    @property
    def unfinished(self) -> int:
        """Number of cells that failed, timed out, were lost or are pending."""
        statuses = sum((Counter(run.statuses) for run in self.runs), Counter[str]())
        return statuses.total() - statuses["ok"] - statuses["not_applicable"]

    def text(self) -> str:
        """Return the scorecard as JSON, with one row per line."""
        return _ROW.sub("\n", self.model_dump_json(exclude_defaults=True)) + "\n"


def read(path: Path) -> Scorecard:
    """Read a scorecard from a file.

    Raises
    ------
    SweepError
        If the file cannot be read, or does not contain a scorecard.
    """
    advice = "give a FILE.json of 'sweep scorecard --output'"
    try:
        return Scorecard.model_validate_json(read_text_file("scorecard", path, advice))
    except ValidationError as error:
        raise SweepError(f"{str(path)!r} is not a scorecard of this version; {advice}") from error


def load_judged(names: Sequence[str]) -> dict[str, Experiment]:
    """Load the experiments with these names or files.

    If there are no names, load the shipped experiments that the scorecard judges.
    """
    loaded = {name: load_experiment(name) for name in names or list_experiments()}
    return {n: e for n, e in loaded.items() if names or (e.scorecard and e.is_compared)}


def renew(
    experiment: Experiment, store: Path, cluster: ClusterSpec, *, allow_code: bool, listen: Listener
) -> None:
    """Solve the cells that a store does not have yet or that other code solved."""
    commands.run(experiment, store, cluster=cluster, allow_code=allow_code, listen=listen)
    if status(store).cells_of_other_code:
        commands.rerun(store, STALE, cluster=cluster, allow_code=allow_code, listen=listen)


def score(wanted: Sequence[Experiment], stores: Path) -> Scorecard:
    """Make the scorecard of the experiments ``wanted`` from their stores in the folder ``stores``.

    Each store has the name of its experiment. Nothing is run: an experiment without a store or a
    dataset is marked as not run. The experiments must have all the sizes of the papers.

    Raises
    ------
    ExperimentError
        If an experiment cannot be laid out.
    StoreError
        If a store is damaged, or holds another experiment.
    """
    return take({experiment.name: _score(experiment, stores) for experiment in wanted})


def take(cards: Mapping[str, Scorecard]) -> Scorecard:
    """Return the rows on each experiment from the scorecard to which ``cards`` maps its name."""
    parts = {
        kind: tuple(
            row for n, card in cards.items() for row in getattr(card, kind) if row.experiment == n
        )
        for kind in Scorecard.model_fields
    }
    return Scorecard(**parts)


def _score(experiment: Experiment, stores: Path) -> Scorecard:
    name, grids = experiment.name, lay_out(experiment)
    run = Run(name, experiment.title, experiment.source, NOT_RUN)
    groups: dict[str, xr.Dataset] = {}
    if (stores / name).exists() and (store := open_(stores / name)).dataset.exists:
        ledger = Journal(store.journal).refresh()
        for grid in grids:
            data = build_group(grid, ledger, experiment)
            # cells that are not in the store, of other sizes for instance, were not run
            stored = data["cell"].isin(store.cells.astype(np.str_))
            if stored.any():
                status = data["status"].where(stored, np.int8(Status.ABSENT))
                groups[grid.group] = data.assign(status=status)
        attributes = open_dataset(stores / name, without=LARGE_TEXTS).attrs
        run = replace(
            run,
            run_at=_describe_run(groups.values()),
            statuses=count_statuses(np.intersect1d(unite_cells(grids).ids, store.cells), ledger),
            revision=attributes.get("git_revision", ""),
            machine=attributes.get("cpu_model", ""),
        )
    drawn = {block.group for block in experiment.blocks if block.replicates > 1}
    first = experiment.blocks[0].group
    kinds = {"printed": experiment.published, "closed form": experiment.closed_form}
    numbers = [
        replace(number, experiment=name, kind=OTHER_READING if table.reading else kind)
        for kind, tables in kinds.items()
        for table in tables
        if not table.repeats
        for group in [table.group or first]
        for number in compare(
            groups.get(group, xr.Dataset()), table, experiment.reference, drawn=group in drawn
        )
    ]
    printed = [number for number in numbers if number.kind == "printed"]
    claims = [
        ClaimRow(
            experiment=name,
            claim=claim,
            judgement=judge_by_numbers(claim, printed)
            if claim.repeats_number
            else judge(groups.get(claim.group or first), claim),
        )
        for claim in experiment.claims
    ]
    return Scorecard(runs=(run,), numbers=tuple(numbers), claims=tuple(claims))


def _describe_run(groups: Iterable[xr.Dataset]) -> str:
    """Describe in words what was run: the number of draws, and the labels of incomplete axes."""
    wanted = defaultdict[str, dict[Scalar, None]](dict)
    run = defaultdict[str, set[Scalar]](set)
    for data in groups:
        cells = frames.long(data)
        for name in (name for name in map(str, data.coords) if name in cells):
            wanted[name].update(dict.fromkeys(labels_of(data, name)))
            run[name] |= {*cells[name]}
    wanted.pop(REPLICATE, None)
    draws = len(run[REPLICATE])
    parts = [f"{draws} draws"] if draws > 1 else []
    for name, all_labels in wanted.items():
        have = [label for label in all_labels if label in run[name]]
        parts += [f"{name} = {format_labels(have)}"] if len(have) < len(all_labels) else []
    return "; ".join(parts) or "all sizes"


def format_labels(labels: Sequence[Scalar]) -> str:
    """Return labels as text; if there are more than four, only the first and the last."""
    shown = [label_text(label) for label in labels]
    return ", ".join(shown) if len(shown) <= _LISTED_LABELS else f"{shown[0]} … {shown[-1]}"
