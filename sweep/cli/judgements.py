"""Commands that judge: ``advise`` queries of your own, the ``scorecard`` the papers."""

import signal
from pathlib import Path
from typing import Annotated

import typer

from sweep.cli.endings import RESUME, TROUBLED, complain, sentences
from sweep.cli.options import (
    AllowCode,
    AllowMixed,
    ClusterOption,
    PatienceOption,
    cluster_of,
    complete_experiment,
    default_store,
)


def advise(
    queries: Annotated[
        Path, typer.Argument(metavar="QUERIES", help="A CSV file with a query in each row.")
    ],
    domain: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="A YAML file with the values of each attribute: 'age: 0..115'."
        ),
    ],
    delta: Annotated[float, typer.Option(help="δ of every ε, for instance 1e-6.")],
    epsilon: Annotated[
        float | None, typer.Option(help="A budget: what it allows is said, too.")
    ] = None,
    mechanism: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Try this mechanism alone. May be repeated. [all]"),
    ] = None,
    time_limit: Annotated[
        float, typer.Option(metavar="SECONDS", help="For each mechanism that can be stopped.")
    ] = 30.0,
    neighbours: Annotated[
        str,
        typer.Option(
            metavar="RELATION",
            help="Databases that must not be told apart differ by one record added or removed "
            "(add-remove), or by one that has another value (replace-one).",
        ),
    ] = "add-remove",
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page of HTML, with a picture.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print the advice as JSON.")] = False,
) -> None:
    """Say what somebody's queries and accuracy targets cost in privacy, and why.

    Every mechanism is tried; what each target costs, what comes free and how accurate every
    answer is are told.

    Example: sweep advise queries.csv --domain domain.yaml --delta 1e-6
    """
    with sentences():
        import json

        from rich.console import Console

        from sweep.report import output as files
        from sweep.report.advice import advising, on_screen, sections
        from sweep.report.terminal import consoles

        waiting = Console(stderr=True)
        with waiting.status("reading") as shown:
            found = advising.advise(
                queries,
                domain,
                delta=delta,
                epsilon=epsilon,
                mechanisms=mechanism,
                time_limit=time_limit,
                neighbours=neighbours,
                told=lambda said: shown.update(f"trying {said}"),
            )
        if output is not None:
            files.write(output, sections.page(found, queries.name))
        if json_:
            typer.echo(json.dumps(sections.content(found), indent=2))
            return
        console = consoles.console()
        for part in on_screen.advice(sections.sections(found)):
            console.print(part)
        if output is not None:
            console.print(f"page: {output}", markup=False)


def scorecard(
    experiments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[EXPERIMENT]...",
            help="Names of shipped experiments, or paths of YAML files. [all that are compared]",
            autocompletion=complete_experiment,
        ),
    ] = None,
    stores: Annotated[
        Path | None,
        typer.Option(
            "--stores",
            metavar="DIR",
            help="Folder with a store for each experiment. [results; results/quick with --quick]",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Run only the sizes that take seconds.")
    ] = False,
    read: Annotated[
        bool, typer.Option("--read", help="Judge what the stores hold now; run nothing.")
    ] = False,
    card: Annotated[
        Path | None,
        typer.Option(
            "--card", metavar="FILE.json", help="Show a scorecard that was written before."
        ),
    ] = None,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output",
            metavar="FILE",
            help="Write it to FILE.json, or into the marked sections of FILE.md. May be repeated.",
        ),
    ] = None,
    format_: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="text, markdown or json.")
    ] = "text",
    cluster: ClusterOption = None,
    allow_code: AllowCode = False,
    allow_mixed: AllowMixed = False,
    patience: PatienceOption = None,
) -> None:
    """Judge every number and every claim of the papers.

    Runs what the stores do not hold yet, as 'sweep run' does; the same command continues it. All
    sizes take hours on one machine.

    Example: sweep scorecard --quick --output card.json
    """
    with sentences(RESUME):
        from sweep.errors import SweepError
        from sweep.report.judgement import judging
        from sweep.report.judgement import scorecard as cards
        from sweep.report.terminal import consoles

        if format_ not in judging.FORMATS:
            raise SweepError(
                f"no format is called {format_!r}; expected one of: {', '.join(judging.FORMATS)}"
            )
        if card is not None and (quick or read or stores):
            raise SweepError("--card excludes --stores, --quick and --read: it is judged already")
        if quick and read:
            raise SweepError("--quick and --read exclude each other; --read judges what is there")
        part = bool(experiments) and card is None
        judging.check_outputs(output or (), part=part)
        wanted = judging.chosen(experiments or (), quick=False)
        if card is not None:
            made = cards.read(card)
            made = made.of(*(one.name for one in wanted)) if experiments else made
        else:
            folder = stores or Path(default_store("quick" if quick else ""))
            if not read:
                spec = cluster_of(cluster, allow_code=allow_code)
                signal.signal(signal.SIGTERM, signal.default_int_handler)
                judging.run(
                    judging.chosen(experiments or (), quick=quick),
                    folder,
                    consoles.console(error=True),
                    cluster=spec,
                    allow_code=allow_code,
                    allow_mixed=allow_mixed,
                    patience=patience,
                )
            made = cards.score(wanted, folder)
        judging.write(made, output or (), part=part)
        judging.show(made, format_, consoles.console())
        if card is None and judging.troubles(made):
            complain(
                f"{judging.troubles(made)} cells failed, timed out, were lost or are pending; "
                f"'sweep status {folder}/EXPERIMENT --errors' shows why"
            )
            raise typer.Exit(TROUBLED)
