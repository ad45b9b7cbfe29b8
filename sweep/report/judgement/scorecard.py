"""The scorecard: every published number and claim, what was measured, and the verdict."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import xarray as xr
from pydantic import AfterValidator, ValidationError

from sweep.dataset.reading import open_dataset
from sweep.errors import SweepError
from sweep.experiment.canonical import Scalar
from sweep.experiment.loading import experiments
from sweep.experiment.schema import Experiment
from sweep.grid.expansion import lay_out
from sweep.report.judgement.agreement import Agreement, compare
from sweep.report.judgement.problems import comparable
from sweep.report.judgement.runs import Row, Run, run_of
from sweep.report.judgement.verdicts import Verdict, judge
from sweep.store.folder import open_

_Row = TypeVar("_Row", bound=Row)
_DIGITS = 7
NUMBERS = (
    (Agreement.AGREES,),
    (Agreement.FACTOR,),
    (Agreement.DIFFERS,),
    (Agreement.NOT_RUN, Agreement.UNJUDGED),
)
CLAIMS = ((Verdict.HOLDS,), (Verdict.VARIES,), (Verdict.FAILS,), (Verdict.UNJUDGED,))
"""The verdicts that are counted together."""


def _short(value: float | None) -> float | None:
    """Rounded to seven significant digits: more than papers print, equal on all machines."""
    return None if value is None else float(f"{value:.{_DIGITS}g}")


Short = Annotated[float | None, AfterValidator(_short)]


class NumberRow(Row):
    """A number of a paper; see `sweep.report.judgement.agreement.Compared`."""

    experiment: str
    kind: str
    table: str
    source: str
    variable: str
    at: Mapping[str, Scalar]
    stated: float
    rounding: float
    least: Short
    most: Short
    seeds: int
    gap: Short
    factor: Short
    difference: Short
    verdict: Agreement
    reason: str

    @property
    def printed_range(self) -> tuple[float, float]:
        """The numbers that are printed as this one."""
        return self.stated - self.rounding, self.stated + self.rounding


class ClaimRow(Row):
    """A claim of a paper; see `sweep.experiment.published.Claim` and `judge`."""

    experiment: str
    text: str
    source: str
    variable: str | None
    at: Mapping[str, tuple[Scalar, ...]]
    over: Scalar | None
    along: str | None
    states_least: float | None
    states_most: float | None
    least: Short
    most: Short
    seeds: int
    held: int
    verdict: Verdict
    reason: str


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
    def tallies(self) -> list[str]:
        """How many numbers, then claims, came to each of `NUMBERS` and `CLAIMS`; "" for none."""
        numbers = Counter(row.verdict for row in self.numbers)
        claims = Counter(row.verdict for row in self.claims)
        return [
            *(str(sum(numbers[verdict] for verdict in verdicts) or "") for verdicts in NUMBERS),
            *(str(sum(claims[verdict] for verdict in verdicts) or "") for verdicts in CLAIMS),
        ]

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
    kinds = {"printed": experiment.published, "closed form": experiment.closed_form}
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
        )
        for kind, tables in kinds.items()
        for table in tables
        for group in [table.group or first]
        for compared in compare(
            groups.get(group, xr.Dataset()), table, experiment.reference, drawn=group in drawn
        )
    ]
    claims = [
        _row(
            ClaimRow,
            claim,
            judge(groups.get(claim.group or first), claim),
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
