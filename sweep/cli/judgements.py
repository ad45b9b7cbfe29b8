"""Commands that judge: ``advise`` the user's queries, ``scorecard`` the papers."""

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sweep.cli.errors import RESUME, TROUBLED, error_handling, print_error
from sweep.cli.options import (
    AllowCode,
    AllowMixed,
    ClusterOption,
    PatienceOption,
    check_choice,
    cluster_of,
    complete_experiment,
    default_store,
)

if TYPE_CHECKING:
    from sweep.experiment.schema import Experiment
    from sweep.scorecard.card import Scorecard

_Queries = Annotated[
    Path, typer.Argument(metavar="QUERIES", help="A CSV file with one query per row.")
]
_Domain = Annotated[
    Path,
    typer.Option(
        metavar="FILE", help="A YAML file with the values of each attribute: 'age: 0..115'."
    ),
]
_Mechanisms = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Try only this mechanism. May be repeated. [all]"),
]
_TimeLimit = Annotated[
    float, typer.Option(metavar="SECONDS", help="Time limit for each mechanism that takes one.")
]
_Neighbours = Annotated[
    str,
    typer.Option(
        metavar="RELATION",
        help="Indistinguishable databases differ by one record added or removed (add-remove) "
        "or by the value of one record (replace-one).",
    ),
]
_Page = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Also write an HTML page, with a picture.")
]
_Experiments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="EXPERIMENT",
        help="Shipped experiments, or paths of YAML files. [all that can be judged]",
        autocompletion=complete_experiment,
    ),
]
_Stores = Annotated[
    Path | None,
    typer.Option(
        "--stores",
        metavar="DIR",
        help="Folder with one store per experiment. [results; results/quick with --quick]",
    ),
]
_Quick = Annotated[bool, typer.Option("--quick", help="Run only the sizes that take seconds.")]
_Read = Annotated[bool, typer.Option("--read", help="Judge what the stores hold now; run nothing.")]
_Card = Annotated[
    Path | None,
    typer.Option("--card", metavar="FILE.json", help="Show a scorecard written earlier."),
]
_Outputs = Annotated[
    list[Path] | None,
    typer.Option(
        "--output",
        metavar="FILE",
        help="Write it to FILE.json, or into the marked sections of FILE.md. May be repeated.",
    ),
]


def advise(
    queries: _Queries,
    domain: _Domain,
    delta: Annotated[float, typer.Option(help="The δ of every ε, for instance 1e-6.")],
    epsilon: Annotated[float | None, typer.Option(help="Also say what this budget allows.")] = None,
    mechanism: _Mechanisms = None,
    time_limit: _TimeLimit = 30.0,
    neighbours: _Neighbours = "add-remove",
    output: _Page = None,
    json_: Annotated[bool, typer.Option("--json", help="Print the advice as JSON.")] = False,
) -> None:
    """Say what a set of queries with accuracy targets costs in privacy, and why.

    Tries every mechanism and shows what each target costs, what comes for free, and how accurate
    every answer is.

    Example: sweep advise queries.csv --domain domain.yaml --delta 1e-6
    """
    with error_handling():
        import json

        from rich.console import Console

        from sweep.report import advice as advising
        from sweep.report import consoles
        from sweep.report import output as files

        if output is not None:
            files.check(output)
        waiting = Console(stderr=True)
        with waiting.status("reading") as shown:
            advice = advising.advise(
                queries,
                domain,
                delta=delta,
                epsilon=epsilon,
                mechanisms=mechanism,
                time_limit=time_limit,
                neighbours=neighbours,
                told=lambda name: shown.update(f"trying {name}"),
            )
        console = consoles.console()
        if json_:
            typer.echo(json.dumps(advising.content(advice), indent=2))
        else:
            for part in advising.shown(advising.sections(advice)):
                console.print(part)
        if output is not None:
            files.write(output, advising.page(advice, queries.name))
            if not json_:
                console.print(f"page: {output}", markup=False)


def scorecard(
    experiments: _Experiments = None,
    stores: _Stores = None,
    quick: _Quick = False,
    read: _Read = False,
    card: _Card = None,
    output: _Outputs = None,
    format_: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="text, markdown or json.")
    ] = "text",
    cluster: ClusterOption = None,
    allow_code: AllowCode = False,
    allow_mixed: AllowMixed = False,
    patience: PatienceOption = None,
) -> None:
    """Judge every published number and every claim of the papers.

    Runs what is not in the stores yet, as 'sweep run' does; the same command continues it. All
    sizes take hours on one machine.

    Example: sweep scorecard --quick --output card.json
    """
    with error_handling(RESUME):
        from rich.markdown import Markdown

        from sweep.errors import SweepError
        from sweep.experiment.loading import load_experiment
        from sweep.report import consoles
        from sweep.scorecard import card as cards
        from sweep.scorecard import page

        check_choice("--format", format_, ("text", "markdown", "json"))
        if card is not None and (quick or read or stores):
            raise SweepError("--card shows a finished scorecard; drop --stores, --quick and --read")
        if quick and read:
            raise SweepError("give either --quick or --read; --read judges what is there")
        part = bool(experiments) and card is None
        _check_outputs(output or (), part=part)
        wanted = _judged(experiments or ())
        folder = stores or Path(default_store("quick" if quick else ""))
        if card is not None:
            score = cards.read(card)
            if experiments:
                score = score.of(*wanted)
        else:
            if not read:
                from sweep.report.messages import ProgressBar
                from sweep.runner import commands

                spec = cluster_of(cluster, allow_code=allow_code)
                signal.signal(signal.SIGTERM, signal.default_int_handler)
                for name, whole in wanted.items():
                    experiment = load_experiment(name, whole.quick) if quick else whole
                    with ProgressBar(consoles.console(error=True)) as bar:
                        commands.run(
                            experiment,
                            folder / experiment.name,
                            listen=bar,
                            cluster=spec,
                            patience=patience,
                            allow_code=allow_code,
                            allow_mixed=allow_mixed,
                        )
            score = cards.score(list(wanted.values()), folder)
        _write(score, output or (), part=part)
        console = consoles.console()
        if format_ == "text":
            console.print(Markdown(page.brief(score)))
        else:
            text = score.text() if format_ == "json" else page.markdown(score)
            console.print(text, markup=False, soft_wrap=True, end="")
        if card is None and score.unfinished:
            print_error(
                f"{score.unfinished} cells failed, timed out, were lost or are pending; "
                f"'sweep status {folder}/EXPERIMENT --errors' shows why"
            )
            raise typer.Exit(TROUBLED)


def _judged(names: Sequence[str]) -> "dict[str, Experiment]":
    """The experiments of these names or files, or all that ship with something to judge."""
    from sweep.experiment.loading import experiments, load_experiment

    if names:
        return {name: load_experiment(name) for name in names}
    shipped = {name: load_experiment(name) for name in experiments()}
    return {n: entry for n, entry in shipped.items() if entry.scorecard and entry.is_compared}


def _check_outputs(outputs: Sequence[Path], *, part: bool) -> None:
    """Refuse files that a scorecard cannot be written to, before anything is run."""
    from sweep.errors import SweepError
    from sweep.report import output
    from sweep.scorecard import card, page

    for path in outputs:
        if path.suffix not in (".json", ".md"):
            raise SweepError(
                f"cannot write a scorecard to {str(path)!r}; expected FILE.json, or FILE.md with "
                "sections to fill in"
            )
        if not path.parent.is_dir():
            raise SweepError(f"there is no folder {str(path.parent)!r} to write {path.name!r} to")
        output.check(path)
        if part and path.suffix == ".json" and path.exists():
            card.read(path)
        if path.suffix == ".md":
            page.filled(page.read(path), card.score([], Path()))


def _write(score: "Scorecard", outputs: Sequence[Path], *, part: bool) -> None:
    """Write a scorecard to JSON files and into the marked sections of pages.

    That of a part of the experiments keeps the others of the first JSON file, if it exists.
    """
    from sweep.report import output
    from sweep.scorecard import card, page

    before = [path for path in outputs if path.suffix == ".json" and path.exists()]
    if part and before:
        score = card.read(before[0]).updated(score)
    for path in outputs:
        is_json = path.suffix == ".json"
        output.write(path, score.text() if is_json else page.filled(page.read(path), score))
