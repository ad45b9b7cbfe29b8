"""Commands that judge: ``advise`` the user's queries, ``scorecard`` the papers."""

import signal
from pathlib import Path
from typing import Annotated

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
        from sweep.errors import SweepError
        from sweep.report import consoles
        from sweep.report.judgement import judging
        from sweep.report.judgement import scorecard as cards

        check_choice("--format", format_, judging.FORMATS)
        if card is not None and (quick or read or stores):
            raise SweepError("--card shows a finished scorecard; drop --stores, --quick and --read")
        if quick and read:
            raise SweepError("give either --quick or --read; --read judges what is there")
        part = bool(experiments) and card is None
        judging.check_outputs(output or (), part=part)
        wanted = judging.chosen(experiments or ())
        folder = stores or Path(default_store("quick" if quick else ""))
        if card is not None:
            score = cards.read(card)
            if experiments:
                score = score.of(*(experiment.name for experiment in wanted.values()))
        else:
            if not read:
                spec = cluster_of(cluster, allow_code=allow_code)
                signal.signal(signal.SIGTERM, signal.default_int_handler)
                sizes = judging.quick_sizes(wanted) if quick else list(wanted.values())
                options = {"allow_code": allow_code, "allow_mixed": allow_mixed}
                shown = consoles.console(error=True)
                judging.run(sizes, folder, shown, cluster=spec, patience=patience, **options)
            score = cards.score(list(wanted.values()), folder)
        judging.write(score, output or (), part=part)
        judging.show(score, format_, consoles.console())
        if card is None and judging.unfinished(score):
            print_error(
                f"{judging.unfinished(score)} cells failed, timed out, were lost or are pending; "
                f"'sweep status {folder}/EXPERIMENT --errors' shows why"
            )
            raise typer.Exit(TROUBLED)
