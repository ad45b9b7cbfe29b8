"""The command line: ``sweep list``, ``plan``, ``run``, ``status`` and so on."""

from sweep.cli import judgements, looks, plans, runs, upkeep
from sweep.cli.app import app

_COMMANDS = (
    plans.list_,
    plans.plan,
    runs.run,
    looks.status,
    runs.rerun,
    looks.show,
    looks.plot,
    looks.report,
    judgements.advise,
    judgements.scorecard,
    upkeep.merge,
    upkeep.forget,
    upkeep.compact,
    upkeep.pack,
)
"""In the order of ``sweep --help``."""

for _command in _COMMANDS:
    app.command(_command.__name__.rstrip("_"))(_command)


def main() -> None:
    """Run the command line."""
    app()
