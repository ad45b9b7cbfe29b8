"""How often the scorecard would mark one of our own draws as different.

    python -m benchmarks.false_alarms STORES

STORES is a folder that ``sweep scorecard --stores`` has written. For every table about a random
workload, each of our draws in turn replaces the printed numbers: it is rounded as they are, and
judged against the other draws. For comparison, the program also counts the numbers that lie outside
the range of the other draws.

Then, for every printed row with an ✗, each number is divided by every other number of the row. The
quotients do not depend on the reference to which the row's ratios refer. So if the quotients agree
with our draws, the row differs from them only in its reference.
"""

import sys
from collections.abc import Iterator
from itertools import combinations, groupby
from pathlib import Path

import numpy as np
import xarray as xr

from sweep.dataset import frames, reading
from sweep.experiment.files import list_experiments
from sweep.experiment.loading import load_experiment
from sweep.experiment.schema import ComparisonTable
from sweep.grid.cells import REPLICATE
from sweep.scorecard.numbers import (
    FEWEST_DRAWS,
    LEVEL,
    Array,
    Verdict,
    compare,
    compute_chance,
    find_surprising,
)


def random_tables(stores: Path) -> Iterator[tuple[str, ComparisonTable, xr.Dataset]]:
    """Yield each printed table about a random workload, after its experiment's name.

    The third item is the dataset with which the table is compared.
    """
    for name in list_experiments():
        experiment = load_experiment(name)
        drawn = {block.group for block in experiment.blocks if block.replicates > 1}
        if not drawn or not experiment.scorecard or not (stores / name).exists():
            continue
        groups = reading.groups(reading.open_dataset(stores / name))
        for table in experiment.published:
            group = table.group or experiment.blocks[0].group
            if group in drawn and group in groups and not (table.repeats or table.reading):
                yield name, table, groups[group]


def draws_of(table: ComparisonTable, data: xr.Dataset) -> list[Array]:
    """Return the draws of every tested number, in order of replicates; NaN for missing draws."""
    found = []
    cells = frames.long(data, table.variable)
    cells = cells.assign(number=cells[table.variable].where(cells["status"] == "ok"))
    for at, _ in table.points():
        if at.get("mechanism") in (*table.same_as, *table.references):
            continue
        numbers = frames.rows_at(cells, {**table.at, **at}).set_index(REPLICATE)["number"]
        if numbers.index.is_unique and np.isfinite(numbers).sum() >= FEWEST_DRAWS + 1:
            found.append(numbers.reindex(range(data.sizes[REPLICATE])).to_numpy())
    return found


def alarms(table: ComparisonTable, draws: list[Array]) -> tuple[int, int, int, int, int]:
    """Judge every draw of a table against the others, and count.

    The five counts are: tables judged, numbers judged, tables with any ✗, numbers with ✗, and
    numbers outside the range of the other draws.
    """
    tables = numbers = any_alarm = found = by_range = 0
    digits = min(2, table.decimals)
    for replicate in range(max(map(len, draws), default=0)):
        here = [values for values in draws if np.isfinite(values[replicate])]
        chances = []
        for values in here:
            others = np.delete(values, replicate)
            others = others[np.isfinite(others)]
            printed, half = round(float(values[replicate]), digits), 0.5 * 10.0**-digits
            chances.append(compute_chance(printed - half, printed + half, others))
            by_range += not others.min() - half <= printed <= others.max() + half
        wrong = find_surprising(chances)
        tables, numbers = tables + 1, numbers + len(here)
        any_alarm, found = any_alarm + any(wrong), found + sum(wrong)
    return tables, numbers, any_alarm, found, by_range


def quotients(table: ComparisonTable, data: xr.Dataset) -> Iterator[str]:
    """Yield, for every printed row with an ✗, the p-values of the quotients of its numbers."""
    numbers = compare(data, table, "optimal", drawn=True)
    cells = frames.long(data, table.variable)
    cells = cells[cells["status"] == "ok"]
    rows = groupby(numbers, key=lambda n: {k: v for k, v in n.at.items() if k != "mechanism"})
    for place, found in rows:
        row = [one for one in found if one.median is not None]
        chances = []
        for above, below in combinations(row, 2):
            draws = [
                frames.rows_at(cells, n.at).set_index(REPLICATE)[table.variable]
                for n in (above, below)
            ]
            low = (above.stated - above.rounding) / (below.stated + below.rounding)
            high = (above.stated + above.rounding) / (below.stated - below.rounding)
            chance = compute_chance(low, high, (draws[0] / draws[1]).dropna().to_numpy())
            chances.append(f"{above.at['mechanism']} / {below.at['mechanism']} {chance:.2g}")
        if any(one.verdict is Verdict.FAILS for one in row):
            yield f"{place}: {', '.join(chances)}"


def main() -> None:
    """Print the counts and rates of each table and of all tables, then the quotients."""
    stores = Path(sys.argv[1])
    total = np.zeros(5, dtype=int)
    print("experiment      tables judged  with any ✗      numbers  ✗        outside the range")
    for name, table, data in random_tables(stores):
        draws = draws_of(table, data)
        if draws:
            counts = np.array(alarms(table, draws))
            total += counts
            print(_line(name, counts))
    if not total[0]:
        sys.exit(f"no random table in {str(stores)!r} has {FEWEST_DRAWS + 1} draws of a number")
    print(_line("all", total))
    print(f"stated: a table has any ✗ with a chance of at most {LEVEL:.0%}")
    for name, table, data in random_tables(stores):
        for line in quotients(table, data):
            print(f"{name}, chances of quotients, {line}")


def _line(name: str, counts: Array) -> str:
    tables, numbers, any_alarm, found, by_range = counts.tolist()
    return (
        f"{name:15} {tables:13} {any_alarm:4} ({any_alarm / tables:6.2%}) {numbers:12} "
        f"{found:3} ({found / numbers:6.2%}) {by_range:5} ({by_range / numbers:6.2%})"
    )


if __name__ == "__main__":
    main()
