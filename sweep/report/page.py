"""The report of a store: one HTML page with all results, for readers without a shell."""

from datetime import UTC, datetime

import pandas as pd

from sweep.dataset import frames, reading
from sweep.dataset.reading import Results, open_dataset
from sweep.errors import SweepError
from sweep.experiment.schema import Experiment
from sweep.report import figures, messages, output, states, tables
from sweep.report.drawing import Picture
from sweep.report.tables import Table
from sweep.runner.status import status as status_of
from sweep.store.places import Location


def report(store: str | Location) -> str:
    """Return the report of a store: an HTML page that needs no other file and no network.

    Some cells of the store may still be pending.

    Raises
    ------
    StoreError
        If the folder is not a store, or has no dataset yet.
    """
    results = open_dataset(store)
    experiment = reading.experiment_of(results)
    status = status_of(store)
    drawn, undrawn = _drawn(results, experiment)
    cells = frames.to_frame(results)
    return output.rendered(
        "report.html",
        experiment=experiment,
        state=frames.state(results),
        counts=frames.statuses(results),
        status=status,
        other_code=states.other_code(status.cells_of_other_code, status.statuses, store),
        attributes=results.attrs,
        facts=frames.facts(results),
        cells=cells,
        core_hours=messages.core_hours(_spent(cells)["cpu_s"].sum()),
        failures=messages.alike(status.troubles),
        tables=tables.all_tables(results, experiment),
        drawn=drawn,
        undrawn=undrawn,
        times=_times(cells),
        made=datetime.now(UTC),
        store=str(store),
    )


def _drawn(results: Results, experiment: Experiment) -> tuple[list[Picture], list[str]]:
    """Draw the default figures and the run times; also return the errors of figures that failed."""
    drawn, missing = list[Picture](), list[str]()
    for name in [*figures.by_default(results, experiment), "scaling"]:
        try:
            drawn += figures.pictures(results, experiment, name)
        except SweepError as error:
            missing.append(str(error))
    return drawn, missing


def _spent(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the cells with a run time; of cells that share a solve, only the first."""
    return cells[cells["runtime_s"].notna()].drop_duplicates("solve")


def _times(cells: pd.DataFrame) -> Table | None:
    """Return a table of the run times by mechanism; None if no cell has a run time."""
    spent = _spent(cells)
    if spent.empty:
        return None
    by = spent.groupby("mechanism", sort=False)
    shown = pd.DataFrame(
        {
            "solves": by.size().map(str),
            "median (s)": by["runtime_s"].median().map("{:.2g}".format),
            "longest (s)": by["runtime_s"].max().map("{:.2g}".format),
            "core-hours": by["cpu_s"].sum().map(messages.core_hours),
            "largest rise of memory": by["peak_memory_bytes"].max().map(states.size_of),
        }
    )
    shown.index.name = "mechanism"
    return Table("Run times of the solves", spent, shown)
