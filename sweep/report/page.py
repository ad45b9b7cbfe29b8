"""The report of a store: one HTML page with all results, for readers without a shell."""

from datetime import UTC, datetime

from sweep.dataset import frames, reading
from sweep.dataset.reading import open_dataset
from sweep.errors import SweepError
from sweep.report import figures, messages, output, states, tables
from sweep.report.drawing import Picture
from sweep.runner.status import status as status_of
from sweep.store.paths import Location


def make_report(store: str | Location) -> str:
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
    drawn, undrawn = list[Picture](), list[str]()
    for name in [*figures.choose_default(results, experiment), "scaling"]:
        try:
            drawn += figures.draw(results, experiment, name)
        except SweepError as error:
            undrawn.append(str(error))
    cells = frames.to_frame(results)
    return output.render(
        "report.html",
        experiment=experiment,
        state=frames.describe_state(results),
        counts=frames.count_statuses(results),
        status=status,
        other_code=states.describe_other_code(status.cells_of_other_code, status.statuses, store),
        attributes=results.attrs,
        cells=cells,
        core_hours=messages.format_core_hours(cells.groupby("solve")["cpu_s"].first().sum()),
        failures=messages.group_alike(status.troubles),
        tables=tables.make_tables(results, experiment),
        drawn=drawn,
        undrawn=undrawn,
        made=datetime.now(UTC),
        store=str(store),
    )
