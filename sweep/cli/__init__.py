"""The command line: ``sweep list``, ``plan``, ``run``, ``status`` and so on.

In: words from a terminal. Out: calls of the rooms before, a sentence for every error, an exit code.
"""

import gc

from sweep.cli import errors, judgements, maintenance, monitoring, plans, results, runs
from sweep.cli.app import app, settle

_COMMANDS = (
    plans.list_,
    plans.plan,
    runs.run,
    monitoring.status,
    monitoring.logs,
    runs.rerun,
    results.show,
    results.plot,
    results.report,
    judgements.advise,
    judgements.scorecard,
    maintenance.merge,
    maintenance.forget,
    maintenance.compact,
    maintenance.pack,
)
"""In the order of ``sweep --help``."""

_COLLECTED = (10_000, 10, 100)
"""Python's own thresholds have the objects of imports looked through again and again."""

for _command in _COMMANDS:
    app.command(_command.__name__.rstrip("_"))(_command)


def main() -> None:
    """Run the command line."""
    gc.set_threshold(*_COLLECTED)
    settle()
    try:
        app()
    except SystemExit as end:
        errors.limit_exit_time(end.code)
        raise
    finally:
        gc.freeze()  # or Python looks for garbage in all that was imported once more
