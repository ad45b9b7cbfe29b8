"""What several commands print."""

from typing import Any


def show_tables(experiment: Any, dataset: Any, console: Any) -> None:
    """Print the tables of an experiment."""
    from sweep.report.numbers import exports
    from sweep.report.terminal.tables import laid_out

    for table in exports.tables(dataset, experiment, "none"):
        console.print(laid_out(table))
        console.print()
