"""Which numbers are in a table, and how they are worded; not how a format writes them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
import xarray as xr

from sweep.dataset.pivots import label_text, labels_of, percent, significant
from sweep.errors import SweepError
from sweep.experiment.schema import ComparisonTable
from sweep.report import frames
from sweep.store.records import Status
from workloads.parameters import nearest

Spread = Literal["error", "range", "none"]
"""Shown beside a mean over replicates: its standard error, the range, or nothing."""
SPREADS: tuple[Spread, ...] = get_args(Spread)

MISSING = "absent"
"""The word for a combination of labels that is no cell of the grid."""
NONE = "none"
"""The word for a number that a mechanism does not have."""
BESIDE = ("paper", "closed form", "ratio")
"""The labels of rows that stand below measured numbers."""
UNPRINTED = "–"
"""Shown where the paper, or the closed form, has no number."""
_ROUNDING = 1e-9
"""Smaller relative differences between replicates are rounding errors, not spread."""
_STATES = pd.Index(frames.STATES.values())
"""The word for each status, indexed by its code."""


@dataclass(frozen=True, eq=False)
class Table:
    """A table: its numbers, and the texts that it shows.

    Attributes
    ----------
    entries : pandas.DataFrame
        One row for every number: its labels, then ``variable``, ``mean``, ``minimum``, ``maximum``
        and ``standard_error`` over the replicates that are ok, ``cells``, ``ok`` and ``numbers``
        (how many there are, how many are ok, and how many of these have the number), ``state``,
        ``gap``, ``published`` and ``ratio`` (measured over published).
    shown : pandas.DataFrame
        Texts, with the labels of rows and columns; no text is empty.
    """

    title: str
    entries: pd.DataFrame
    shown: pd.DataFrame
    notes: tuple[str, ...] = ()

    @property
    def labels(self) -> list[tuple[str, ...]]:
        """The labels of every row."""
        return [label if isinstance(label, tuple) else (label,) for label in self.shown.index]


@dataclass(frozen=True)
class Wanted:
    """The variable, rows, columns and cells of a table.

    Other coordinates that vary become rows, except replicates, over which the table shows a mean
    and its ``spread``. ``digits`` are the significant digits of numbers.
    """

    value: str = "variance_ratio"
    rows: tuple[str, ...] = ()
    columns: str = "mechanism"
    where: str | None = None
    spread: Spread = "error"
    digits: int = 4


def table(data: xr.Dataset, wanted: Wanted, title: str = "") -> Table:
    """One variable over any coordinates; nothing but replicates is averaged.

    By default its title is the long name of the variable.

    Raises
    ------
    SweepError
        If there is no such variable or coordinate, or no such cell.
    """
    if wanted.columns in wanted.rows:
        raise SweepError(
            f"{wanted.columns!r} is asked for in rows and in columns; name another coordinate in "
            "one of them"
        )
    if len(set(wanted.rows)) < len(wanted.rows):
        raise SweepError(f"rows {', '.join(wanted.rows)}: name each coordinate once")
    cells = frames.where(frames.long(data, wanted.value), wanted.where)
    rows = rows_of(data, cells, wanted.rows, wanted.columns)
    by = [*rows, wanted.columns]
    order = {name: labels_of(data, name) for name in by}
    entries = ordered(summarised(cells, wanted.value, by), order)
    named = str(data[wanted.value].attrs.get("long_name", wanted.value))
    shown = pivoted(entries, rows, wanted.columns, order[wanted.columns], wanted)
    return Table(title or named, entries, shown, explained(entries, wanted.spread))


def rows_of(
    data: xr.Dataset, cells: pd.DataFrame, first: Sequence[str], *columns: str
) -> tuple[str, ...]:
    """The coordinates of the rows: those asked for, then all others that vary.

    Raises
    ------
    SweepError
        If one is no coordinate.
    """
    known = [str(name) for name in data.coords if name in cells]
    for name in (*first, *columns):
        if name not in known:
            raise SweepError(f"there is no coordinate {name!r}; {nearest(name, known)}")
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


def summarised(cells: pd.DataFrame, value: str, by: Sequence[str]) -> pd.DataFrame:
    """The entries: mean and spread over the replicates of every combination of labels."""
    codes = _STATES.get_indexer(pd.Index(cells["status"]))
    ok = pd.Series(np.equal(codes, Status.OK), index=cells.index)
    known = pd.DataFrame(
        {
            "number": cells[value].astype(np.float64).where(ok),
            "ok": ok,
            "code": codes,
            "gap": cells["gap"].where(ok) if "gap" in cells else np.nan,
        }
    )
    rows = known.groupby([cells[name] for name in by], sort=False, dropna=False).agg(
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


def ordered(entries: pd.DataFrame, order: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    """The entries sorted by their labels along some coordinates, in the given order."""
    places = {name: {label: at for at, label in enumerate(order[name])} for name in order}
    return entries.sort_values(
        list(order), key=lambda labels: labels.map(places[str(labels.name)]), kind="stable"
    )


def with_published(entries: pd.DataFrame, published: ComparisonTable) -> pd.DataFrame:
    """The entries with the paper's numbers beside them, and the ratios measured / published."""
    stated = {tuple(at.values()): number for at, number in published.points()}
    places = entries.reindex(columns=list(published.axes)).itertuples(index=False, name=None)
    beside = entries.assign(published=[stated.get(at, np.nan) for at in places])
    printed = beside["published"]
    return beside.assign(ratio=beside["mean"] / printed.where(printed != 0))


def pivoted(
    entries: pd.DataFrame,
    rows: Sequence[str],
    columns: str,
    labels: Sequence[Any],
    wanted: Wanted,
) -> pd.DataFrame:
    """The texts of the entries as a table with these rows and columns."""
    texts = [
        (tuple(entry[name] for name in rows), entry[columns], worded(entry, wanted))
        for entry in entries.to_dict("records")
    ]
    return _arranged(texts, rows, columns, labels)


def beside(
    entries: pd.DataFrame,
    rows: Sequence[str],
    columns: str,
    labels: Sequence[Any],
    wanted: Wanted,
    kind: str,
) -> pd.DataFrame:
    """The table with the numbers of another kind, and the ratios to them, in rows of their own."""
    texts: list[tuple[tuple[Any, ...], Any, str]] = []
    for entry in entries.to_dict("records"):
        shown = {"measured": worded(entry, wanted)}
        if not math.isnan(entry["published"]):
            shown |= {kind: printed(entry["published"]), "ratio": ratio(entry["ratio"])}
        at = tuple(entry[name] for name in rows)
        texts += [((*at, of), entry[columns], text) for of, text in shown.items()]
    return _arranged(texts, [*rows, ""], columns, labels)


def _arranged(
    texts: Sequence[tuple[tuple[Any, ...], Any, str]],
    rows: Sequence[str],
    across: str,
    across_labels: Sequence[Any],
) -> pd.DataFrame:
    """Texts by the labels of their rows and their column; where rows have none, one empty label."""
    table: dict[tuple[Any, ...], dict[Any, str]] = {}
    for labels, column, text in texts:
        table.setdefault(labels, {})[column] = text
    known, paired = {column for _, column, _ in texts}, list(rows[-1:]) == [""]
    columns = [label for label in dict.fromkeys(across_labels) if label in known]
    cells = [
        [
            row.get(label, UNPRINTED if paired and labels[-1] != "measured" else MISSING)
            for label in columns
        ]
        for labels, row in table.items()
    ]
    listed = [tuple(map(label_text, labels)) for labels in table]
    index = pd.MultiIndex.from_tuples(listed, names=list(rows)) if rows else pd.Index([""])
    if len(rows) == 1:
        index = pd.Index([text for (text,) in listed], name=rows[0])
    named = "" if across in ("mechanism", "column") else f"{across} = "
    return pd.DataFrame(cells, index, [f"{named}{label_text(label)}" for label in columns])


def worded(entry: Mapping[Any, Any], wanted: Wanted) -> str:
    """The mean and its spread as a text; the state in a word where there is no number.

    A standard error has as many decimals as its mean.
    """
    if not entry["ok"]:
        return str(entry["state"]).replace("_", " ")
    mean = float(entry["mean"])
    if math.isnan(mean):
        return NONE
    text = percent(mean) if entry["variable"] == "gap" else significant(mean, wanted.digits)
    varies = entry["maximum"] - entry["minimum"] > _ROUNDING * abs(mean)
    if varies and entry["variable"] != "gap":
        match wanted.spread:
            case "error":
                decimals = len(text.partition(".")[2])
                as_text = f".{decimals}f" if "e" not in text else f".{wanted.digits}g"
                text += f" ± {entry['standard_error']:{as_text}}"
            case "range":
                ends = (significant(entry[end], wanted.digits) for end in ("minimum", "maximum"))
                text += f" [{', '.join(ends)}]"
    known, cells = entry["numbers"], entry["cells"]
    return text if known == cells else f"{text} ({known}/{cells})"


def printed(value: float) -> str:
    """A published number as papers print it: with two decimals if these suffice."""
    return f"{value:.2f}" if round(value, 2) == value else f"{value:.12g}"


def ratio(value: float) -> str:
    """Measured over published."""
    if math.isnan(value):
        return NONE
    return f"{value:.3f}" if abs(value) >= 0.0995 else f"{value:.3g}"


def explained(entries: pd.DataFrame, spread: Spread) -> tuple[str, ...]:
    """Sentences that explain the texts of these entries."""
    least, most = int(entries["cells"].min()), int(entries["cells"].max())
    of = str(most) if least == most else f"{least} to {most}"
    beside = {"error": " ± their standard error", "range": " [smallest, largest]", "none": ""}
    silent = entries[(entries["ok"] > 0) & entries["mean"].isna()]
    partial = entries[(entries["numbers"] > 0) & (entries["numbers"] < entries["cells"])]
    notes = [
        f"Means{beside[spread]} over {of} replicates." if most > 1 else "",
        "(k/n): the mean of the k of n replicates that have the number." if len(partial) else "",
        f"{NONE}: the mechanism has no such number." if len(silent) else "",
    ]
    return tuple(note for note in notes if note)


def relation(data: xr.Dataset) -> tuple[str, ...]:
    """A sentence on which databases are neighbours; empty if a dataset does not say."""
    return (f"Neighbours: {neighbours}.",) if (neighbours := data.attrs.get("neighbours")) else ()
