"""What several commands print."""

from typing import Any


def show_tables(experiment: Any, dataset: Any, console: Any) -> None:
    """Print the tables of an experiment."""
    from sweep.report.terminal import tables

    for table in tables.tables(dataset, experiment):
        console.print(table, markup=False)
        console.print()
