"""Tables of a store: comparisons with published numbers, overviews, and claims with verdicts.

A table consists of numbers and of the texts that display them; `formats` writes both.
"""

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from sweep.dataset import frames, reading
from sweep.dataset.pivots import cells_at, label_text, labels_of, percent, significant
from sweep.dataset.reading import Results
from sweep.errors import SweepError
from sweep.experiment.canonical import Scalar
from sweep.experiment.schema import ComparisonTable, Experiment
from sweep.grid.cells import REPLICATE
from sweep.scorecard.claims import format_range, judge
from sweep.scorecard.numbers import Verdict, compare, select_ok
from sweep.store.records import Status
from workloads.parameters import nearest

Spread = Literal["error", "range", "none"]
"""The spread shown beside a mean over replicates: the standard error, the range, or nothing."""

MISSING = "absent"
"""The text for a combination of labels that is not a cell of the grid."""
NONE = "none"
"""The text for a number that a mechanism does not have."""
UNPRINTED = "–"
"""The text for a number that the paper or the closed form does not have."""
BESIDE = ("paper", "closed form", "ratio")
"""The labels of the rows that follow a row of measured numbers."""
CLAIMS = "what the text says"
"""The title of the table of claims; the experiment's name precedes it."""
_ROUNDING = 1e-9
"""Replicates whose relative difference is at most this are shown without a spread: it would be all
zeros beside a mean of at most 15 digits, of which four are the default."""
_STATES = pd.Index(frames.STATES.values())
"""The labels of the statuses; a label's index is the number of its status."""
_REFERENCE = "the reference mechanism"
"""The words of a variable's long name that stand for the name of this mechanism."""
_LONGEST = 64
"""Largest number of rows of an overview with a row for every mechanism, about a terminal's height
and a half; longer ones show one variable, with a column for every mechanism."""
_LISTED = {
    "squared_privacy_cost": "Δ²",
    "variance_ratio": "variance ratio",
    "total_variance_ratio": "total / CA's",
    "gap": "gap",
    "utility": "utility",
    "utility_bound": "its bound",
    "min_entropy_leakage": "leakage (bit)",
    "leakage_bound": "its bound",
    "expected_squared_error": "expected squared error",
}
"""Headings of the variables that an overview shows unless ``show`` names others."""


@dataclass(frozen=True, eq=False)
class ResultTable:
    """A table: its numbers, and the texts that it shows.

    Attributes
    ----------
    entries : pandas.DataFrame
        One row for every number: its labels, then ``variable``, ``mean``, ``minimum``, ``maximum``
        and ``standard_error`` over the replicates that are ok; ``cells``, ``ok`` and ``numbers``
        (how many cells there are, how many are ok, and how many of these have the number);
        ``state``, ``gap``, ``published`` and ``ratio`` (measured divided by published). The table
        of claims has one row for every claim instead, with other columns.
    shown : pandas.DataFrame
        The texts to display, with the labels of rows and columns; no text is empty.
    """

    title: str
    entries: pd.DataFrame
    shown: pd.DataFrame
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> list[tuple[list[str], list[str]]]:
        """The labels and the texts of every row."""
        labels = self.shown.index.to_frame().to_numpy().tolist()
        return list(zip(labels, self.shown.to_numpy().tolist(), strict=True))


@dataclass(frozen=True)
class Wanted:
    """The requested content of tables: the variable ``value``, rows, columns, cells and group.

    If ``value`` is empty, every group has its default tables, and the function `make_table` shows
    variance ratios. If ``group`` is None, there are tables of all groups. Coordinates that vary but
    are not requested become rows, too, except replicates: the table shows means over replicates,
    with ``spread`` beside them. ``digits`` is the number of significant digits.
    """

    value: str = ""
    rows: tuple[str, ...] = ()
    columns: str = "mechanism"
    where: str | None = None
    spread: Spread = "error"
    digits: int = 4
    group: str | None = None


def make_tables(
    results: Results, experiment: Experiment, wanted: Wanted | None = None
) -> list[ResultTable]:
    """Return the tables of numbers, then the table of claims.

    There is no table of claims if a variable or a group is requested, or if the experiment has no
    claims.
    """
    wanted = wanted or Wanted()
    stated = experiment.claims and not wanted.value and wanted.group is None
    numbers = make_number_tables(results, experiment, wanted)
    return [*numbers, make_claims_table(results, experiment)] if stated else numbers


def make_number_tables(
    results: Results, experiment: Experiment, wanted: Wanted
) -> list[ResultTable]:
    """Return the tables of numbers of the requested group, by default of all groups.

    A group has a table for each comparison with published numbers. A group without comparisons has
    one table: of the requested variable or, if no variable is requested, an overview.

    Raises
    ------
    SweepError
        If there is no such group, if no group has the requested variable, coordinates and cells,
        or if a coordinate is requested twice.
    """
    if wanted.columns in wanted.rows or len(set(wanted.rows)) < len(wanted.rows):
        raise SweepError(
            f"rows {', '.join(wanted.rows)} and columns {wanted.columns} have a coordinate twice; "
            "name each coordinate once"
        )
    tables, troubles = list[ResultTable](), list[SweepError]()
    for group, data in reading.split_groups(results, wanted.group).items():
        try:
            compared = list(_make_comparisons(group, data, experiment, wanted))
            if wanted.value and not compared:
                compared = [make_table(data, wanted, group=group)]
            tables += compared or [_make_overview(group, data, experiment, wanted)]
        except SweepError as error:
            troubles.append(error)
    if not tables:
        raise troubles[0]
    return tables


def make_claims_table(results: Results, experiment: Experiment) -> ResultTable:
    """Return the table of the paper's claims, with the measured ranges and the verdicts."""
    groups = reading.split_groups(results)
    first = next(iter(groups), "")
    numbers, texts = [], []
    for claim in experiment.claims:
        judgement = judge(groups.get(claim.group or first), claim)
        numbers.append(
            {
                "claim": claim.text,
                **{name: getattr(claim, name) for name in ("source", "variable", "least", "most")},
                "measured_minimum": judgement.least,
                "measured_maximum": judgement.most,
                "verdict": str(judgement.verdict),
                "reason": judgement.reason,
            }
        )
        ends = (claim.least, claim.most)
        texts.append(
            {
                "claim": f"{claim.text} ({claim.source})" if claim.source else claim.text,
                "states": format_range(*ends) or "no range",
                "measured": format_range(judgement.least, judgement.most, ends) or NONE,
                "verdict": ": ".join(filter(None, (judgement.verdict, judgement.reason))),
            }
        )
    title = f"{experiment.name}: {CLAIMS}"
    return ResultTable(title, pd.DataFrame(numbers), pd.DataFrame(texts).set_index("claim"))


def make_table(data: xr.Dataset, wanted: Wanted, group: str = "") -> ResultTable:
    """Return a table of one variable over any coordinates; only replicates are averaged.

    The title is the variable's long name, after the name of the ``group`` if there is one.

    Raises
    ------
    SweepError
        If the variable or a coordinate does not exist, or no cell meets the condition.
    """
    value = wanted.value or "variance_ratio"
    cells = frames.where(frames.long(data, value), wanted.where)
    rows = choose_rows(data, cells, wanted.rows, wanted.columns)
    order = {name: labels_of(data, name) for name in (*rows, wanted.columns)}
    numbers = _sort(summarise(cells, value, list(order)), order)
    title = f"{group}: {describe(data, value)}" if group else describe(data, value)
    shown = _arrange(numbers, rows, wanted.columns, order[wanted.columns], wanted)
    notes = tuple(_explain(data, numbers, wanted.spread))
    return ResultTable(title, numbers, shown, notes)


def choose_rows(
    data: xr.Dataset, cells: pd.DataFrame, first: Sequence[str], *columns: str
) -> tuple[str, ...]:
    """Return the coordinates of the rows: ``first``, then others that vary, except replicates.

    The coordinates ``columns`` are not rows.

    Raises
    ------
    SweepError
        If a name is not a coordinate.
    """
    coordinates = [str(name) for name in data.coords if name in cells]
    for name in (*first, *columns):
        if name not in coordinates:
            raise SweepError(f"there is no coordinate {name!r}; {nearest(name, coordinates)}")
    taken = {
        dim
        for name in (*first, *columns)
        for dim in data[name].dims
        if len(set(labels_of(data, name))) == data.sizes[dim]
    }
    others = [
        str(dim)
        for dim in data.dims
        if dim in cells and dim not in taken | {"replicate"} and cells[str(dim)].nunique() > 1
    ]
    return (*first, *others)


def summarise(cells: pd.DataFrame, value: str, by: Sequence[str]) -> pd.DataFrame:
    """Return a table's entries: mean and spread over the cells with equal labels along ``by``."""
    codes = _STATES.get_indexer(pd.Index(cells["status"]))
    ok = pd.Series(np.equal(codes, Status.OK), index=cells.index)
    facts = pd.DataFrame(
        {
            "number": cells[value].astype(np.float64).where(ok),
            "ok": ok,
            "code": codes,
            "gap": cells["gap"].where(ok) if "gap" in cells else np.nan,
        }
    )
    rows = facts.groupby([cells[name] for name in by], sort=False, dropna=False).agg(
        mean=("number", "mean"),
        minimum=("number", "min"),
        maximum=("number", "max"),
        standard_error=("number", "sem"),
        cells=("ok", "size"),
        ok=("ok", "sum"),
        numbers=("number", "count"),
        state=("code", "max"),
        gap=("gap", "max"),
    )
    rows = rows.assign(state=_STATES.take(rows["state"].to_numpy()), published=np.nan, ratio=np.nan)
    rows.insert(0, "variable", value)
    return rows.reset_index()


def describe(data: xr.Dataset, variable: str) -> str:
    """Return the long name of a variable, with the name of the reference mechanism filled in."""
    long_name = str(data[variable].attrs.get("long_name", variable))
    return long_name.replace(_REFERENCE, str(data.attrs.get("reference", _REFERENCE)))


def _sort(entries: pd.DataFrame, order: Mapping[str, Sequence[Scalar]]) -> pd.DataFrame:
    """Sort entries by their labels; ``order`` lists each coordinate's labels in their order."""
    places = {name: {label: n for n, label in enumerate(order[name])} for name in order}
    return entries.sort_values(
        list(order), key=lambda labels: labels.map(places[str(labels.name)]), kind="stable"
    )


def _arrange(
    entries: pd.DataFrame,
    rows: Sequence[str],
    across: str,
    labels: Sequence[Scalar],
    wanted: Wanted,
    beside: str = "",
) -> pd.DataFrame:
    """Return the texts of the entries, arranged by the labels of rows and columns.

    ``beside`` is the label of rows with published numbers. Such a row follows each row of measured
    numbers and is followed by a row of ratios. If ``beside`` is empty, all rows are measured.
    """
    texts: dict[tuple[Scalar, ...], dict[Scalar, str]] = {}
    for entry in entries.to_dict("records"):
        shown = {"measured": _format_entry(entry, wanted)}
        if beside and not math.isnan(entry["published"]):
            shown |= {
                beside: format_published(entry["published"]),
                "ratio": format_ratio(entry["ratio"]),
            }
        labels_of_row = [entry[name] for name in rows]
        for kind, text in shown.items():
            texts.setdefault((*labels_of_row, kind), {})[entry[across]] = text
    filled = {column for row in texts.values() for column in row}
    columns = [label for label in dict.fromkeys(labels) if label in filled]
    cells = [
        [row.get(label, UNPRINTED if labels_of_row[-1] in BESIDE else MISSING) for label in columns]
        for labels_of_row, row in texts.items()
    ]
    named = "" if across in ("mechanism", "column") else f"{across} = "
    arranged = pd.DataFrame(cells, columns=[f"{named}{label_text(label)}" for label in columns])
    levels = zip([*rows, ""], zip(*texts, strict=True), strict=True)
    index = [pd.Index(map(label_text, level), name=name) for name, level in levels]
    if not beside:
        index = index[:-1] or [pd.Index([""])]  # all rows are measured
    return arranged.set_index(index)


def _format_entry(entry: Mapping[Hashable, Any], wanted: Wanted) -> str:
    """Format an entry's mean and spread; if no cell is ok, return the entry's state.

    A standard error has as many decimals as its mean.
    """
    if not entry["ok"]:
        return str(entry["state"]).replace("_", " ")
    mean = float(entry["mean"])
    if math.isnan(mean):
        return NONE
    gap = entry["variable"] == "gap"
    text = percent(mean) if gap else significant(mean, wanted.digits)
    if not gap and entry["maximum"] - entry["minimum"] > _ROUNDING * abs(mean):
        if wanted.spread == "error":
            text += f" ± {_format_error(entry['standard_error'], text, wanted.digits)}"
        elif wanted.spread == "range":
            ends = (significant(entry[end], wanted.digits) for end in ("minimum", "maximum"))
            text += f" [{', '.join(ends)}]"
    numbers, cells = entry["numbers"], entry["cells"]
    return text if numbers == cells else f"{text} ({numbers}/{cells})"


def _format_error(error: float, mean: str, digits: int) -> str:
    """Format a standard error with as many decimals as its mean; ``<0.01``, not ``0.00``."""
    if "e" in mean:
        return f"{error:.{digits}g}"
    decimals = len(mean.partition(".")[2])
    least = 10.0**-decimals
    return f"<{least:.{decimals}f}" if 0 < error < least / 2 else f"{error:.{decimals}f}"


def format_published(value: float) -> str:
    """Format a published number with two decimals if these are exact, or else with all digits."""
    return f"{value:.2f}" if round(value, 2) == value else f"{value:.12g}"


def format_ratio(value: float) -> str:
    """Format a ratio of a measured to a published number."""
    if math.isnan(value):
        return NONE
    return f"{value:.3f}" if abs(value) >= 0.0995 else f"{value:.3g}"


def _explain(data: xr.Dataset, entries: pd.DataFrame, spread: Spread) -> Iterator[str]:
    """Yield a table's notes: what its entries mean, and which databases are neighbours."""
    least, most = int(entries["cells"].min()), int(entries["cells"].max())
    if most > 1:
        of = str(most) if least == most else f"{least} to {most}"
        beside = {"error": " ± their standard error", "range": " [smallest, largest]", "none": ""}
        gaps = (entries["variable"] == "gap").all()  # shown without a spread
        yield f"Means{beside['none' if gaps else spread]} over {of} replicates."
    if ((entries["numbers"] > 0) & (entries["numbers"] < entries["cells"])).any():
        yield "(k/n): the mean of the k of n replicates that have the number."
    if ((entries["ok"] > 0) & entries["mean"].isna()).any():
        yield f"{NONE}: the mechanism has no such number."
    if neighbours := data.attrs.get("neighbours"):
        yield f"Neighbours: {neighbours}."


def _make_comparisons(
    group: str, data: xr.Dataset, experiment: Experiment, wanted: Wanted
) -> Iterator[ResultTable]:
    """Yield a table for every comparison with published numbers for which the group has cells.

    If a variable is requested, only comparisons of that variable are included. Below each row of
    measured numbers are a row of published or closed-form numbers and a row of ratios.
    """
    kinds = {"paper": experiment.published, "closed form": experiment.closed_form}
    for kind, tables in kinds.items():
        for published in tables:
            requested = wanted.value in ("", published.variable) and "mechanism" in published.axes
            if requested and published.group in (None, group) and published.variable in data:
                compared = cells_at(data, published.at)
                if compared is not None and (compared["status"].to_numpy() != Status.ABSENT).any():
                    yield _make_comparison(compared, published, kind, experiment.reference, wanted)


def _make_comparison(
    here: xr.Dataset, published: ComparisonTable, kind: str, reference: str, wanted: Wanted
) -> ResultTable:
    """Return a table of measured and published numbers and ratios, the paper's mechanisms first.

    ``wanted`` selects rows, columns and cells; by default, the rows are those of the paper.
    """
    variable = published.variable
    cells = frames.where(frames.long(here, variable), wanted.where)
    named = [name for name in published.axes if name in here.coords]
    placed = {dim for name in named for dim in here[name].dims} | {"mechanism"}
    axes = [axis for axis in frames.axes(here, variable) if axis not in placed]
    unstated = [axis for axis in axes if here.sizes.get(axis, 1) > 1]
    first = [name for name in named if name not in ("mechanism", wanted.columns)]
    rows = choose_rows(here, cells, wanted.rows or first, wanted.columns)
    mechanisms = labels_of(here, "mechanism")
    printed = [name for name in published.axes["mechanism"] if name in mechanisms]
    order = {name: labels_of(here, name) for name in (*rows, wanted.columns)}
    order |= {"mechanism": list(dict.fromkeys([*printed, *mechanisms]))}
    numbers = _sort(summarise(cells, variable, list(dict.fromkeys([*order, *named]))), order)
    if unstated:
        meant = f"the table does not say at which {' and '.join(unstated)} its numbers are"
    else:
        stated = {tuple(point.values()): number for point, number in published.points()}
        places = numbers.reindex(columns=list(published.axes)).itertuples(index=False, name=None)
        beside = pd.Series([stated.get(point, np.nan) for point in places], numbers.index)
        numbers = numbers.assign(
            published=beside, ratio=numbers["mean"] / beside.where(beside != 0)
        )
        meant = f"ratio = measured / {kind}"
        if numbers["published"].isna().all():
            meant = f"the {kind} has no numbers for these settings"
    gaps = select_ok(frames.rows_at(cells, {"mechanism": reference}), "gap")
    remarks = [published.source, meant]
    remarks += [f"largest gap of {reference}: {percent(gaps.max())}"] if gaps.size else []
    caption = f"{'; '.join(filter(None, remarks))}."
    shown = _arrange(numbers, rows, wanted.columns, order[wanted.columns], wanted, kind)
    lacking = (shown.to_numpy() == UNPRINTED).any()
    notes = (
        f"{caption[:1].upper()}{caption[1:]}{_explain_factor(here, published, reference)}",
        *([f"{UNPRINTED}: the {kind} has no such number."] if lacking else []),
        *_explain(here, numbers, wanted.spread),
    )
    title = f"{published.title or variable}: {describe(here, variable)}"
    return ResultTable(title, numbers, shown, notes)


def _explain_factor(data: xr.Dataset, published: ComparisonTable, reference: str) -> str:
    """Return a sentence on the factors by which rows of measured numbers exceed the paper's.

    The factor of a row follows from its number for IP, as in the scorecard. The sentence is empty
    if there is no such factor, or if the numbers are means over replicates.
    """
    drawn = data.sizes.get(REPLICATE, 1) > 1
    factors = {}
    for number in compare(data, published, reference, drawn=drawn):
        if number.verdict is Verdict.FACTOR:
            labels = {name: number.at[name] for name in published.axes if name != "mechanism"}
            place = ", ".join(f"{name} = {label_text(label)}" for name, label in labels.items())
            factors[place] = f"{number.factor:.3f}{place and f' at {place}'}"
    if not factors:
        return ""
    named = ", ".join(map(str, published.references)) or "reference"
    return (
        f" Numbers of a row exceed the paper's by one factor ({', '.join(factors.values())}): the "
        f"paper's {named} stopped that far above the optimum."
    )


def _make_overview(
    group: str, data: xr.Dataset, experiment: Experiment, wanted: Wanted
) -> ResultTable:
    """Return a table of a group's main variables, with a row for every mechanism.

    The main variables are those that the experiment's ``show`` names, by default those of
    `_LISTED`. If the group has only one of them, or if there would be too many rows, the table
    shows one variable, with a column for every mechanism. If it has none, the table is empty.
    """
    wished = experiment.show or _LISTED
    existing = [name for name in wished if name in data]
    shown = [name for name in existing if np.isfinite(data[name].to_numpy()).any()] or existing
    if not shown:
        title = f"{group}: nothing to show; no variable is {', '.join(wished)}"
        return ResultTable(title, pd.DataFrame(), pd.DataFrame())
    dims = dict.fromkeys([*data[shown[0]].dims, *data["status"].dims, "mechanism"])
    by = [*(str(dim) for dim in dims if dim not in ("mechanism", "replicate")), "mechanism"]
    if math.prod(data.sizes.get(name, 1) for name in by) > _LONGEST or len(shown) == 1:
        ratios = not experiment.show and "variance_ratio" in shown
        name = "variance_ratio" if ratios else shown[0]
        return make_table(data, replace(wanted, value=name, rows=tuple(by[:-1])), group)
    columns = {_LISTED.get(name, name.replace("_", " ")): (name, data) for name in shown}
    if not experiment.show and "delta" in data.dims and "epsilon_at_targets" in data:
        for position, delta in enumerate(labels_of(data, "delta")):  # the least ε for each δ
            # selecting a label of an index makes xarray import dask.array, which takes longer
            budget = data.drop_indexes("delta").isel(delta=position)
            if np.isfinite(budget["epsilon_at_targets"].to_numpy()).any():
                columns[f"ε at δ={delta:g}"] = ("epsilon_at_targets", budget)
    # a million cells with all their variables and labels would fill the memory
    needed = [name for name in ("status", "gap") if name in data]
    labels = set(data.coords) - {*by, *data.dims}
    parts = [
        summarise(
            frames.long(part[[name, *needed]].drop_vars(labels, errors="ignore"), name), name, by
        ).assign(column=heading)
        for heading, (name, part) in columns.items()
    ]
    order = {name: labels_of(data, name) for name in by}
    numbers = _sort(pd.concat(parts, ignore_index=True), order)
    texts = _arrange(numbers, by, "column", list(columns), wanted)
    title = f"{group}: {experiment.title}" if experiment.title else group
    return ResultTable(title, numbers, texts, tuple(_explain(data, numbers, wanted.spread)))
