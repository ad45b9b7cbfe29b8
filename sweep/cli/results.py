"""Commands for readers: ``show``, ``plot``, ``report``, ``advise`` and ``scorecard``."""

import signal
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from sweep.cli import complete
from sweep.cli.common import (
    TROUBLED,
    AllowCode,
    AllowMixed,
    AsJson,
    Cluster,
    Digits,
    Group,
    Patience,
    Store,
    Text,
    Where,
    load_cluster,
    print_error,
)


def show(
    store: Store,
    format_: Annotated[
        Literal["text", "markdown", "latex", "csv", "html", "json"],
        Option("--format", metavar="FORMAT"),
    ] = "text",
    value: Annotated[Text, Option(metavar="VARIABLE", autocompletion=complete.variables)] = None,
    rows: Annotated[Text, Option(metavar="AXIS[,AXIS]")] = None,
    columns: Annotated[Text, Option(metavar="AXIS")] = None,
    where: Where = None,
    group: Group = None,
    spread: Annotated[Literal["error", "range", "none"] | None, Option(metavar="SPREAD")] = None,
    digits: Digits = 4,
    claims: Annotated[bool, Option("--claims")] = False,
) -> None:
    """Print tables of results beside the papers' numbers.

    Examples: sweep show results/vldb-table4 --format latex

      sweep show results/vldb-table5 --value gap --where "d > 64"

    Parameters
    ----------
    format_
        Output format: text, markdown, latex, csv, html or json.
    value
        The variable to show; by default the experiment's tables or, if cells or axes are chosen,
        variance_ratio.
    rows
        The coordinates of the rows; by default all coordinates that vary.
    columns
        The coordinate of the columns; by default mechanism.
    spread
        What to show beside a mean over replicates: its standard error (error), the smallest and the
        largest value (range), or nothing (none); by default none for the experiment's tables as
        text, and error for all others.
    claims
        Show the claims of the paper's text, and whether they hold.
    """
    from sweep.dataset import reading
    from sweep.errors import SweepError
    from sweep.report import consoles, formats, states, tables
    from sweep.report.tables import Wanted

    given = [option for option in (value, rows, columns, where) if option is not None]
    used = " ".join(given) + (" cell" if where and "code" in where else "")
    unused = [name for name in reading.LARGE_TEXTS if name not in used]
    dataset = reading.add_code_states(reading.open_dataset(store, unused), store, where)
    experiment = reading.experiment_of(dataset)
    screen = format_ == "text" and not given and not claims
    value = value or ("variance_ratio" if given else "")
    names = tuple(name.strip() for name in rows.split(",")) if rows else ()
    spread = spread or ("none" if screen else "error")
    wanted = Wanted(value, names, columns or "mechanism", where, spread, digits, group)
    console = consoles.make_console()
    stale = states.describe_stale(store)
    if screen:
        formats.show_store(dataset, experiment, store, console, wanted)
        if stale:
            console.print(stale, markup=False)
        return
    if stale:  # beside the tables, which may go into a file
        print_error(stale)
    if claims:
        if given or group is not None:
            raise SweepError(
                "--claims shows all claims; drop --value, --rows, --columns, --where, --group"
            )
        if not experiment.claims:
            raise SweepError(f"experiment {experiment.name!r} has no claims; drop --claims")
        shown = [tables.make_claims_table(dataset, experiment)]
    else:
        shown = [t for t in tables.make_tables(dataset, experiment, wanted) if len(t.shown)]
    if format_ == "text":
        formats.show(shown, console)
    else:
        typer.echo(consoles.escape(formats.RENDERERS[format_](shown)), nl=False)


def plot(
    store: Store,
    figure: Annotated[Text, Argument(metavar="FIGURE", autocompletion=complete.figures)] = None,
    output: Annotated[Path | None, Option(metavar="PATH")] = None,
    variable: Annotated[Text, Option(metavar="VARIABLE", autocompletion=complete.variables)] = None,
    x: Annotated[Text, Option(metavar="AXIS")] = None,
    hue: Annotated[Text, Option(metavar="AXIS")] = None,
    panels: Annotated[Text, Option(metavar="AXIS")] = None,
    log: Annotated[Literal["x", "y", "x,y", ""] | None, Option(metavar="x,y")] = None,
    group: Group = None,
    where: Where = None,
    title: Annotated[Text, Option(metavar="TEXT")] = None,
    size: Annotated[Text, Option(metavar="WxH")] = None,
    digits: Digits = 6,
) -> None:
    """Draw the figures of an experiment, or standard figures.

    Prints the paths of the files.

    Examples: sweep plot results/vldb-fig2

      sweep plot results/vldb-table5 ratio --x d --output ratio.svg

    Parameters
    ----------
    figure
        A figure of the experiment (by name, or figure-1, figure-2, ...), or ratio, cost, utility,
        privacy, scaling, variances, profile, covariance, convergence, gradient or regions; by
        default all that the experiment declares or, if it declares none, ratio or utility.
    output
        A file *.pdf, *.svg or *.png (several figures get one each, NAME-FIGURE.png), or a folder
        for PDF files; by default STORE/figures, or ./figures if the store is not on a disk.
    variable
        The variable to draw.
    x
        The horizontal axis.
    hue
        Draw a line for each label of this axis; by default mechanism.
    panels
        Draw a panel for each label of this axis.
    log
        The logarithmic axes; '' for none.
    title
        The title; '' for none.
    size
        Width and height in inches, as in 3.4x2.4; by default they depend on the panels.
    """
    from sweep.dataset import reading
    from sweep.report import drawing, figures
    from sweep.store.paths import locate

    drawing.check_installed()
    dataset = reading.add_code_states(reading.open_dataset(store), store, where)
    experiment = reading.experiment_of(dataset)
    axes = None if log is None else tuple(filter(None, log.split(",")))
    inches = None if size is None else _parse_size(size)
    changes = {
        **{"variable": variable, "x": x, "hue": hue, "panels": panels, "where": where},
        **{"group": group, "log": axes, "title": title, "size": inches, "digits": digits},
    }
    named = [figure] if figure else figures.choose_default(dataset, experiment)
    pictures = [
        picture
        for name in named
        for picture in figures.draw(dataset, experiment, name, changes, locate(store))
    ]
    for picture, path in drawing.choose_files(
        pictures, output or _choose_folder(store) / "figures"
    ):
        picture.save(path)
        typer.echo(str(path))


def _parse_size(size: str) -> tuple[float, float]:
    from sweep.errors import SweepError

    try:
        width, height = map(float, size.split("x"))
    except ValueError:
        width = height = 0.0
    if not (0 < width <= 100 and 0 < height <= 100):
        raise SweepError(f"--size is {size!r}; expected WIDTHxHEIGHT in inches, as in 3.4x2.4")
    return width, height


def report(
    store: Store, output: Annotated[Path | None, Option(metavar="FILE.html")] = None
) -> None:
    """Write one HTML page with everything about a store.

    The page contains tables, figures, errors and the origin of the numbers, and needs no other
    file.

    Example: sweep report results/vldb-table5 --output table5.html

    Parameters
    ----------
    output
        The file to write; by default STORE/report.html.
    """
    from sweep.report import drawing, page
    from sweep.report import output as files

    drawing.check_installed()
    written = output or _choose_folder(store) / "report.html"
    files.check(written)
    files.write(written, page.make_report(store))
    typer.echo(str(written))


def _choose_folder(store: str) -> Path:
    """Return the folder for files about a store: the store's folder if the store is on a disk.

    For a store in an object store, return the current folder.
    """
    from sweep.store.paths import locate

    place = locate(store)
    return place if isinstance(place, Path) else Path()


def advise(
    queries: Annotated[Path, Argument(metavar="QUERIES")],
    domain: Annotated[Path, Option(metavar="FILE")],
    delta: Annotated[float, Option(metavar="DELTA")],
    epsilon: Annotated[float | None, Option(metavar="EPSILON")] = None,
    mechanism: Annotated[
        list[str] | None, Option(metavar="NAME", autocompletion=complete.mechanisms)
    ] = None,
    time_limit: Annotated[float, Option(metavar="SECONDS")] = 90.0,
    neighbours: Annotated[str, Option(metavar="RELATION")] = "add-remove",
    output: Annotated[Path | None, Option(metavar="FILE")] = None,
    json_: AsJson = False,
) -> None:
    """Say what queries with accuracy targets cost in privacy.

    Shows what each target costs, what comes for free, and how accurate every answer is.

    Example: sweep advise queries.csv --domain domain.yaml --delta 1e-6

    Parameters
    ----------
    queries
        A CSV file with one query per row.
    domain
        A YAML file with the values of each attribute, such as 'age: 0..115'.
    delta
        The δ of the privacy guarantee, for instance 1e-6.
    epsilon
        Also show how accurate the answers are at this ε.
    mechanism
        Try only this mechanism; by default all that might cost least. May be repeated.
    time_limit
        Time limit for all solves together.
    neighbours
        How neighbouring databases differ: by one record added or removed (add-remove), or by the
        value of one record (replace-one).
    output
        Also write an HTML page, with a picture.
    """
    from sweep.report import advice as advising
    from sweep.report import consoles, formats, states
    from sweep.report import output as files

    if output is not None:
        files.check(output)
    advice = advising.advise(
        queries,
        domain,
        delta=delta,
        epsilon=epsilon,
        mechanisms=mechanism,
        time_limit=time_limit,
        neighbours=neighbours,
        progress=lambda step: typer.echo(f"trying {step}", err=True),
    )
    if output is not None:  # before anything is printed, in case the reader stops reading
        files.write(output, advising.render_page(advice, queries.name))
    console = consoles.make_console()
    if json_:
        typer.echo(states.to_json(advising.list_content(advice)))
    else:
        formats.show(list(advising.write_sections(advice).values()), console)
    if output is not None and not json_:
        console.print(f"page: {output}", markup=False)


def scorecard(
    experiments: Annotated[
        list[str] | None, Argument(metavar="EXPERIMENT", autocompletion=complete.experiments)
    ] = None,
    stores: Annotated[Path | None, Option(metavar="DIR")] = None,
    quick: Annotated[bool, Option("--quick")] = False,
    read: Annotated[bool, Option("--read")] = False,
    card: Annotated[Path | None, Option(metavar="FILE.json")] = None,
    output: Annotated[list[Path] | None, Option(metavar="FILE")] = None,
    format_: Annotated[
        Literal["text", "markdown", "json"], Option("--format", metavar="FORMAT")
    ] = "text",
    cluster: Cluster = None,
    allow_code: AllowCode = False,
    allow_mixed: AllowMixed = False,
    patience: Patience = None,
) -> None:
    """Judge every published number and claim of the papers.

    First solves the cells that are not in the stores yet or were solved by other code. After an
    interruption, the same command continues. The full sizes take hours on one machine.

    Example: sweep scorecard --quick --output card.json

    Parameters
    ----------
    experiments
        Shipped experiments, or paths of YAML files; by default all that can be judged.
    stores
        Folder with one store per experiment; by default results, or results/quick with --quick.
    quick
        Run only the sizes that take seconds.
    read
        Judge the results that are in the stores now; run nothing.
    card
        Show a scorecard that was written earlier.
    output
        Write the scorecard to FILE.json, or into the marked sections of FILE.md. May be repeated.
    format_
        Output format: text, markdown or json.
    """
    from rich.markdown import Markdown

    from sweep.errors import SweepError, command
    from sweep.experiment.loading import load_experiment
    from sweep.report import consoles
    from sweep.report import output as files
    from sweep.report.messages import ProgressBar
    from sweep.scorecard import card as cards
    from sweep.scorecard import page

    if card is not None and (quick or read or stores):
        raise SweepError("--card shows a finished scorecard; drop --stores, --quick and --read")
    if quick and read:
        raise SweepError("give either --quick or --read; --read judges what the stores hold")
    outputs = output or []
    for path in outputs:  # a file that cannot be written is refused before anything is run
        files.check(path)
        page.make_content(path, cards.take({}))
    part = bool(experiments) and card is None
    kept = [path for path in outputs if part and path.suffix == ".json" and path.exists()]
    before = cards.read(kept[0]) if kept else None
    wanted = cards.load_judged(experiments or ())
    folder = stores or Path("results/quick" if quick else "results")
    if card is not None:
        score = cards.read(card)
        if experiments:
            score = score.of(*(experiment.name for experiment in wanted.values()))
    else:
        if not read:
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            spec = load_cluster(
                cluster, allow_code=allow_code, allow_mixed=allow_mixed, patience=patience
            )
            for name, whole in wanted.items():
                experiment = load_experiment(name, whole.quick) if quick else whole
                with ProgressBar(consoles.make_console(error=True)) as bar:
                    store = folder / experiment.name
                    cards.renew(experiment, store, spec, allow_code=allow_code, listen=bar)
        score = cards.score(list(wanted.values()), folder)
    for path in outputs:
        files.write(path, page.make_content(path, before.updated(score) if before else score))
    console = consoles.make_console()
    if format_ == "text":
        console.print(Markdown(page.summarise(score)))
    else:
        text = score.text() if format_ == "json" else page.to_markdown(score)
        console.print(text, markup=False, soft_wrap=True, end="")
    if card is None and score.unfinished:
        print_error(
            f"{score.unfinished} cells failed, timed out, were lost or are pending; "
            f"{command('status', f'{folder}/EXPERIMENT', '--errors')} shows why"
        )
        raise typer.Exit(TROUBLED)
