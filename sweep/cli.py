"""The command line: ``sweep list``, ``plan``, ``run``, ``status`` and so on."""

import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from sweep.runner.clusters import ClusterSpec

OK, TROUBLED, BAD_INPUT, BUG, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 70, 130, 141

_HELP = """
Sweeps of differentially private query mechanisms, on a Dask cluster.

An EXPERIMENT is a grid of workloads, variance targets and mechanisms: the name of a shipped one
('sweep list experiments'), or the path of a YAML file. Its results go to a store, a folder with
a journal and an xarray dataset, DIR/results.zarr, which can be opened at any time. Running an
experiment again solves only the cells that its store does not hold yet.

A first session:

  sweep list experiments\n
  sweep plan vldb-table4\n
  sweep run vldb-table4\n
  sweep show results/vldb-table4

Exit codes: 0 all is well, 1 some cells failed, timed out, were lost or are still pending, or the
dataset could not be written, 2 bad input, 70 internal error, 130 interrupted.
"""

app = typer.Typer(
    help=_HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_debug = {"on": False}


def _complete_experiment(incomplete: str) -> list[str]:
    from sweep.experiment.loading import experiments

    return [name for name in experiments() if name.startswith(incomplete)]


ExperimentName = Annotated[
    str,
    typer.Argument(
        metavar="EXPERIMENT",
        help="Name of a shipped experiment, or path of a YAML file.",
        autocompletion=_complete_experiment,
    ),
]
StoreFolder = Annotated[str, typer.Argument(metavar="STORE", help="The --store of 'sweep run'.")]
StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="STORE",
        help="Folder of the results, or s3://BUCKET/PREFIX, gs://..., az://... "
        "[results/EXPERIMENT]",
    ),
]
ClusterOption = Annotated[
    Path | None,
    typer.Option(
        "--cluster",
        metavar="FILE",
        help="A cluster.yaml in dask-ctl's form. [one process for every processor of this machine]",
    ),
]
PatienceOption = Annotated[
    float | None,
    typer.Option(
        "--patience",
        metavar="SECONDS",
        min=0.0,
        help="How long to wait while the cluster has no workers. [600]",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a value of the experiment, as in --set d=64,128. May be repeated.",
    ),
]
AllowCode = Annotated[
    bool,
    typer.Option(
        "--allow-code",
        help="Call the functions that the experiment names (workload 'entry-point').",
    ),
]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for other programs.")]
WhereOption = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="CONDITION",
        help="Only cells for which this holds, over coordinates, status and variables.",
    ),
]
AllowMixed = Annotated[
    bool,
    typer.Option(
        "--allow-mixed",
        help="Let workers have other versions of Python and of libraries than this command.",
    ),
]


def _version(asked: bool) -> None:
    if asked:
        from sweep.dataset.provenance import revision, version_of

        typer.echo(f"fitness-sweep {version_of('fitness-sweep')} (git revision: {revision()})")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    _debug["on"] = debug


@app.command("list")
def list_(
    kind: Annotated[
        str | None,
        typer.Argument(metavar="[KIND]", help="experiments, workloads, targets or mechanisms."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List experiments, workloads, targets and mechanisms with their parameters.

    Example: sweep list mechanisms
    """
    with _sentences():
        from sweep.errors import SweepError
        from sweep.report import catalog, machine, screen

        if kind is not None and kind not in catalog.LISTINGS:
            raise SweepError(
                f"there is no list of {kind!r}; expected one of: {', '.join(catalog.LISTINGS)}"
            )
        found = catalog.catalog() if kind is None else catalog.catalog([kind])
        if as_json:
            typer.echo(machine.listings(found))
            return
        console = screen.console()
        for listing, entries in found.items():
            console.print(screen.entries(listing, entries))
            console.print()
        for trouble in catalog.troubles():
            console.print(trouble, markup=False)


@app.command()
def plan(
    experiment: ExperimentName,
    store: StoreOption = None,
    set_: SetOption = None,
    allow_code: AllowCode = False,
) -> None:
    """Show what a run would do, without doing it.

    Prints cells, shared solves, finished cells, the largest matrix, memory and time.

    Example: sweep plan vldb-table5 --set d=64,128
    """
    with _sentences():
        from sweep.experiment.loading import load_experiment
        from sweep.plan import dry_run
        from sweep.report import screen

        loaded = load_experiment(experiment, set_ or ())
        folder = store or _default_store(loaded.name)
        if allow_code:
            _import_from_here()
        planned = dry_run.plan(loaded, folder, allow_code=allow_code)
        screen.console().print(screen.planned(planned, f"({folder})"))


@app.command()
def run(
    experiment: ExperimentName,
    store: StoreOption = None,
    cluster: ClusterOption = None,
    set_: SetOption = None,
    allow_code: AllowCode = False,
    allow_mixed: AllowMixed = False,
    patience: PatienceOption = None,
) -> None:
    """Solve the cells that the store does not hold yet, and show the tables.

    Ctrl-C ends it cleanly; the same command continues where it stopped.

    Example: sweep run vldb-table5 --set d=64,128 --store results/small
    """
    with _sentences(_resume_hint):
        from sweep.experiment.loading import load_experiment
        from sweep.runner import commands

        loaded = load_experiment(experiment, set_ or ())
        folder = store or _default_store(loaded.name)
        spec = _cluster(cluster)
        if allow_code:
            _import_from_here()
        _watch(
            folder,
            lambda tell: commands.run(
                loaded,
                folder,
                cluster=spec,
                patience=patience,
                allow_code=allow_code,
                allow_mixed=allow_mixed,
                listen=tell,
            ),
        )


@app.command()
def rerun(
    store: StoreFolder,
    stale: Annotated[
        bool, typer.Option("--stale", help="Select cells that were solved by other code.")
    ] = False,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="CONDITION",
            help="Select cells by coordinates, status, code ('current' or 'other') and other "
            "variables.",
        ),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", min=0.0, help="Limit for one solve, instead of the experiment's."
        ),
    ] = None,
    cluster: ClusterOption = None,
    allow_code: AllowCode = False,
    allow_mixed: AllowMixed = False,
    patience: PatienceOption = None,
) -> None:
    """Solve some cells again: by default the failed, timed-out and lost cells.

    A cell that was ok keeps its result if it now fails.

    Example: sweep rerun results/vldb-table5 --where "mechanism == 'CA' and d > 256"
    """
    with _sentences(_resume_hint):
        from sweep.errors import SweepError
        from sweep.runner import commands
        from sweep.runner.selection import STALE

        if stale and where is not None:
            raise SweepError("--stale and --where exclude each other; give one of them")
        chosen = STALE if stale else where
        spec = _cluster(cluster)
        if allow_code:
            _import_from_here()
        _watch(
            store,
            lambda tell: commands.rerun(
                store,
                chosen,
                time_limit=time_limit,
                cluster=spec,
                patience=patience,
                allow_code=allow_code,
                allow_mixed=allow_mixed,
                listen=tell,
            ),
        )


@app.command()
def status(
    store: StoreFolder,
    errors: Annotated[
        bool, typer.Option("--errors", help="Show all errors, with tracebacks.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the state of a store: from any terminal, even while it is being filled.

    Example: sweep status results/vldb-table5 --errors
    """
    with _sentences():
        from sweep.report import machine, screen
        from sweep.runner.status import status as status_of

        found = status_of(store)
        if as_json:
            typer.echo(machine.state(found))
            return
        console = screen.console()
        console.print(screen.store_status(found))
        for line in screen.troubles(found.troubles, traces=errors):
            console.print(line)


@app.command()
def show(
    store: StoreFolder,
    form: Annotated[
        str, typer.Option("--format", help="text, markdown, latex, csv, html or json.")
    ] = "text",
    value: Annotated[
        str | None, typer.Option(metavar="VARIABLE", help="Show this variable. [variance_ratio]")
    ] = None,
    rows: Annotated[
        str | None, typer.Option(metavar="AXIS[,AXIS]", help="The coordinates of the rows.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="AXIS", help="The coordinate of the columns. [mechanism]")
    ] = None,
    where: WhereOption = None,
    spread: Annotated[
        str | None,
        typer.Option(
            help="Beside a mean over replicates: its standard error (error), the smallest and "
            "largest (range), or nothing (none). [error]"
        ),
    ] = None,
) -> None:
    """Print the papers' tables beside the measured numbers, or any variable as a table.

    Examples: sweep show results/vldb-table4 --format latex

      sweep show results/vldb-table5 --rows d --value gap --where "mechanism != 'IP'"
    """
    with _sentences():
        from sweep.dataset.reading import open_dataset
        from sweep.plan.stored import experiment_of
        from sweep.report import exports, formats, screen, tables
        from sweep.report.layout import SPREADS, Wanted
        from sweep.store.folder import open_

        _check_choice("--format", form, formats.FORMATS)
        _check_choice("--spread", spread or "error", SPREADS)
        dataset = open_dataset(store)
        experiment = experiment_of(open_(store))
        chosen = {
            "value": value,
            "rows": tuple(_listed(rows)) if rows else None,
            "columns": columns,
            "where": where,
            "spread": spread,
        }
        given: dict[str, Any] = {name: one for name, one in chosen.items() if one is not None}
        if form == "text" and not given:
            _show(experiment, dataset, screen.console())
            return
        if given.keys() <= {"spread"}:
            found = exports.tables(dataset, experiment, **given)
        else:
            found = exports.asked(dataset, Wanted(**given))
        if form == "text":
            console = screen.console()
            for table in found:
                console.print(tables.laid_out(table))
                console.print()
        else:
            typer.echo(screen.escaped(formats.RENDERERS[form](found)), nl=False)


@app.command()
def plot(
    store: StoreFolder,
    figure: Annotated[
        str | None,
        typer.Argument(
            metavar="[FIGURE]",
            help="One that the experiment declares, or ratio, cost, utility, privacy, scaling, "
            "variances, profile, covariance or convergence. [those it declares]",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="A file *.pdf, *.svg or *.png, or a folder for PDF files. [STORE/figures; "
            "figures for a store that is not on a disk]",
        ),
    ] = None,
    variable: Annotated[
        str | None, typer.Option(metavar="VARIABLE", help="Draw this variable.")
    ] = None,
    x: Annotated[
        str | None, typer.Option("--x", metavar="AXIS", help="The horizontal axis.")
    ] = None,
    hue: Annotated[
        str | None, typer.Option(metavar="AXIS", help="A line for every label of it. [mechanism]")
    ] = None,
    panels: Annotated[
        str | None, typer.Option(metavar="AXIS", help="A panel for every label of it.")
    ] = None,
    log: Annotated[
        str | None, typer.Option(metavar="x,y", help="The logarithmic axes; '' for none.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(metavar="GROUP", help="Of this group alone. [all that have it]")
    ] = None,
    where: WhereOption = None,
) -> None:
    """Draw the figures of an experiment, or one that every store has, and name the files.

    Examples: sweep plot results/vldb-fig2

      sweep plot results/vldb-table5 ratio --x d --output ratio.svg
    """
    with _sentences():
        from sweep.dataset.reading import open_dataset
        from sweep.plan.stored import experiment_of
        from sweep.report import drawing, gallery, origin
        from sweep.store.folder import open_
        from sweep.store.location import located

        drawing.check_installed()
        dataset = open_dataset(store)
        experiment = experiment_of(open_(store))
        axes = None if log is None else tuple(_listed(log))
        for axis in axes or ():
            _check_choice("--log", axis, ("x", "y"))
        changes = gallery.Changes(variable, x, hue, panels, where, group, axes)
        named = [figure] if figure else gallery.by_default(dataset, experiment)
        found = [
            picture
            for name in named
            for picture in gallery.pictures(dataset, experiment, name, changes, located(store))
        ]
        for picture, path in drawing.files(found, output or _beside(store) / "figures"):
            drawing.save(picture, path, origin.facts(dataset))
            typer.echo(str(path))


@app.command()
def report(
    store: StoreFolder,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="The file. [STORE/report.html]")
    ] = None,
) -> None:
    """Write one HTML file with everything: progress, failures, tables, figures and origin.

    Example: sweep report results/vldb-table5 --output table5.html
    """
    with _sentences():
        from sweep.report import drawing, page

        drawing.check_installed()
        written = output or _beside(store) / "report.html"
        page.write(store, written)
        typer.echo(str(written))


def _beside(store: str) -> Path:
    """Where to write what belongs to a store: its folder, or this one if it is not on a disk."""
    from sweep.store.location import located

    place = located(store)
    return place if isinstance(place, Path) else Path()


def _listed(text: str) -> list[str]:
    """The names of ``"a, b"``."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _check_choice(option: str, given: str, choices: Sequence[str]) -> None:
    from sweep.errors import SweepError
    from workloads.parameters import nearest

    if given not in choices:
        raise SweepError(f"{option} {given}: there is none; {nearest(given, list(choices))}")


@app.command()
def merge(
    stores: Annotated[list[str], typer.Argument(metavar="STORE...", help="The stores to merge.")],
    into: Annotated[str, typer.Option(metavar="STORE", help="The store that receives them.")],
) -> None:
    """Bring the results of several stores of one experiment together, from several clusters.

    Example: sweep merge results/here s3://bucket/there --into results/both
    """
    with _sentences(_again_hint):
        from sweep.runner import upkeep

        cells = upkeep.merge(stores, into)
        typer.echo(f"{cells} cells have a result in {into}")


@app.command()
def forget(
    store: StoreFolder,
    where: Annotated[
        str | None,
        typer.Option(metavar="CONDITION", help="Select cells as 'sweep rerun' does."),
    ] = None,
    hidden: Annotated[
        bool, typer.Option("--hidden", help="Select cells that the experiment no longer has.")
    ] = False,
) -> None:
    """Count nothing any more that was recorded of some cells; 'sweep run' solves them again.

    Example: sweep forget results/vldb-table5 --where "mechanism == 'HM'"
    """
    with _sentences(_again_hint):
        from sweep.errors import SweepError
        from sweep.runner import upkeep

        if hidden == (where is not None):
            raise SweepError("give --where CONDITION or --hidden, and not both")
        typer.echo(f"{upkeep.forget(store, where)} cells are forgotten")


@app.command()
def compact(store: StoreFolder) -> None:
    """Put all journal segments into one, which is faster to read and to copy.

    Example: sweep compact results/vldb
    """
    with _sentences(_again_hint):
        from sweep.runner import upkeep

        typer.echo(f"{upkeep.compact(store)} segments are one now")


@app.command()
def pack(
    store: StoreFolder,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="NAME.tar or NAME.tar.gz.")],
) -> None:
    """Write a store into one file, to send or to archive; 'tar xf' unpacks it.

    Example: sweep pack results/vldb-table5 table5.tar.gz
    """
    with _sentences(_again_hint):
        from sweep.runner import upkeep

        typer.echo(f"{file}: {upkeep.pack(store, file):,} bytes")


@app.command()
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
    with _sentences():
        import json

        from rich.console import Console

        from sweep.report import advice_page, advising, screen

        waiting = Console(stderr=True)
        with waiting.status("reading") as shown:
            found = advising.advise(
                queries,
                domain,
                delta=delta,
                epsilon=epsilon,
                mechanisms=mechanism,
                time_limit=time_limit,
                told=lambda said: shown.update(f"trying {said}"),
            )
        if output is not None:
            advice_page.write(found, queries.name, output)
        if json_:
            typer.echo(json.dumps(advising.content(found), indent=2))
            return
        console = screen.console()
        for part in screen.advice(advising.sections(found)):
            console.print(part)
        if output is not None:
            console.print(f"page: {output}", markup=False)


@app.command()
def scorecard(
    experiments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[EXPERIMENT]...",
            help="Names of shipped experiments, or paths of YAML files. [all that are compared]",
            autocompletion=_complete_experiment,
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
    with _sentences(_resume_hint):
        from sweep.errors import SweepError
        from sweep.report import judging, screen
        from sweep.report import scorecard as cards

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
            folder = stores or Path(_default_store("quick" if quick else ""))
            if not read:
                spec = _cluster(cluster)
                if allow_code:
                    _import_from_here()
                signal.signal(signal.SIGTERM, signal.default_int_handler)
                judging.run(
                    judging.chosen(experiments or (), quick=quick),
                    folder,
                    screen.console(error=True),
                    cluster=spec,
                    allow_code=allow_code,
                    allow_mixed=allow_mixed,
                    patience=patience,
                )
            made = cards.score(wanted, folder)
        judging.write(made, output or (), part=part)
        judging.show(made, format_, screen.console())
        if card is None and judging.troubles(made):
            _complain(
                f"{judging.troubles(made)} cells failed, timed out, were lost or are pending; "
                f"'sweep status {folder}/EXPERIMENT --errors' shows why"
            )
            raise typer.Exit(TROUBLED)


def _watch(folder: str, work: Any) -> None:
    """Run with a progress bar, then show the tables and the path of the dataset."""
    from sweep.errors import DatasetError
    from sweep.events import Event, RunEnded, to_all
    from sweep.plan.stored import experiment_of
    from sweep.report import screen
    from sweep.report.progress import ProgressBar
    from sweep.store.folder import open_

    ended: list[RunEnded] = []

    def remember(event: Event) -> None:
        if isinstance(event, RunEnded):
            ended.append(event)

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = screen.console(when_closed=lambda: _note_closed(folder))
    unwritten: DatasetError | None = None
    with ProgressBar(console) as bar:
        try:
            dataset = work(to_all(bar, remember))
        except DatasetError as error:
            unwritten = error
    store = open_(folder)
    if unwritten is None:
        _show(experiment_of(store), dataset, console)
    last = ended[-1]
    console.print(f"{screen.counts(last.statuses)} in {screen.duration(last.seconds)}")
    if unwritten is None:
        console.print(f"dataset: {store.results}", markup=False)
    else:
        _complain(f"warning: {unwritten}")
    if last.of_other_code:
        total = sum(last.statuses.values())
        console.print(screen.other_code(last.of_other_code, total, folder), markup=False)
    troubled = any(last.statuses.get(name) for name in ("failed", "timeout", "lost"))
    if troubled:
        console.print(
            f"'sweep status {folder} --errors' shows why; 'sweep rerun {folder}' retries them",
            markup=False,
        )
    pending = last.statuses.get("pending", 0)
    if pending:
        console.print(f"{pending} cells are pending; 'sweep run' solves them", markup=False)
    if troubled or pending or unwritten:
        raise typer.Exit(TROUBLED)


def _note_closed(folder: str) -> None:
    """Say where it may be read that nobody reads the output any more."""
    from sweep.errors import StoreError
    from sweep.events import OutputClosed
    from sweep.runner import history
    from sweep.store.location import located

    with suppress(OSError):
        _complain("the output was closed; the sweep goes on without it, and Ctrl-C ends it")
    with suppress(StoreError):
        history.recorder(located(folder))(OutputClosed())


def _show(experiment: Any, dataset: Any, console: Any) -> None:
    from sweep.report import tables

    for table in tables.tables(dataset, experiment):
        console.print(table, markup=False)
        console.print()


def _cluster(path: Path | None) -> "ClusterSpec | None":
    from sweep.runner import clusters

    if path is None:
        return None
    _import_from_here()
    return clusters.load(path)


def _import_from_here() -> None:
    """Make modules of the current folder importable, for code that the user has named."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)


def _default_store(name: str) -> str:
    return f"results/{name}"


_resume_hint = "interrupted; the same command continues where it stopped"
_again_hint = "interrupted; nothing is lost, give the same command again"


@contextmanager
def _sentences(on_interrupt: str = "interrupted") -> Iterator[None]:
    """Turn errors into a sentence and an exit code, with tracebacks only for ``--debug``."""
    import solvers
    import workloads
    from sweep.errors import NoWorkersError, SchedulerLostError, SweepError

    expected = (
        SweepError,
        workloads.WorkloadError,
        workloads.TargetsError,
        solvers.SolverError,
    )
    try:
        yield
    except typer.Exit:
        raise
    except KeyboardInterrupt:
        _complain(on_interrupt)
        raise typer.Exit(INTERRUPTED) from None
    except (NoWorkersError, SchedulerLostError) as error:
        _complain(f"error: {error}")
        raise typer.Exit(TROUBLED) from None
    except expected as error:
        _complain(f"error: {error}")
        raise typer.Exit(BAD_INPUT) from None
    except BrokenPipeError:
        raise typer.Exit(BROKEN_PIPE) from None
    except Exception as error:
        _complain(f"internal error: {type(error).__name__}: {error}; --debug shows where")
        raise typer.Exit(BUG) from None


def _complain(text: str) -> None:
    from sweep.report import screen

    if _debug["on"]:
        typer.echo(screen.escaped(traceback.format_exc()), err=True)
    typer.echo(screen.sentence(text), err=True)


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
