"""Commands for readers: ``show``, ``plot``, ``report``, ``advise`` and ``scorecard``."""

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from sweep.cli.common import TROUBLED, cluster_of, print_error

if TYPE_CHECKING:
    from sweep.dataset.reading import Results
    from sweep.scorecard.card import Scorecard


def show(
    store: str,
    format_: Literal["text", "markdown", "latex", "csv", "html", "json"] = "text",
    value: str | None = None,
    rows: str | None = None,
    columns: str | None = None,
    where: str | None = None,
    group: str | None = None,
    spread: Literal["error", "range", "none"] | None = None,
    digits: int = 4,
    claims: bool = False,
) -> None:
    """Print tables of results beside the papers' numbers.

    Examples: sweep show results/vldb-table4 --format latex

      sweep show results/vldb-table5 --value gap --where "d > 64"

    Parameters
    ----------
    format_ : FORMAT
        Output format: text, markdown, latex, csv, html or json.
    value : VARIABLE, default: the experiment's tables; variance_ratio if cells or axes are chosen
        The variable to show.
    rows : AXIS[,AXIS], default: all coordinates that vary
        The coordinates of the rows.
    columns : AXIS, default: mechanism
        The coordinate of the columns.
    group : GROUP, default: all groups
        Show only this group.
    spread : SPREAD, default: error; none for the default tables as text
        What to show beside a mean over replicates: its standard error (error), the smallest and the
        largest value (range), or nothing (none).
    claims : flag
        Show the claims of the paper's text, and whether they hold.
    """
    from sweep.dataset import reading
    from sweep.errors import SweepError
    from sweep.report import consoles, formats, states, tables
    from sweep.report.tables import Wanted

    given = [option for option in (value, rows, columns, where) if option is not None]
    used = " ".join(given) + (" cell" if where and "code" in where else "")
    dataset = reading.open_dataset(
        store, [name for name in reading.LARGE_TEXTS if name not in used]
    )
    dataset = _with_code_states(dataset, store, where)
    experiment = reading.experiment_of(dataset)
    screen = format_ == "text" and not given and not claims
    value = value or ("variance_ratio" if given else "")
    names = tuple(name.strip() for name in rows.split(",")) if rows else ()
    spread = spread or ("none" if screen else "error")
    wanted = Wanted(value, names, columns or "mechanism", where, spread, digits, group)
    console = consoles.console()
    stale = states.stale(store)
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
        shown = [tables.claims(dataset, experiment)]
    else:
        shown = [t for t in tables.all_tables(dataset, experiment, wanted) if len(t.shown)]
    if format_ == "text":
        formats.show(shown, console)
    else:
        typer.echo(consoles.escaped(formats.RENDERERS[format_](shown)), nl=False)


def plot(
    store: str,
    figure: str | None = None,
    output: Path | None = None,
    variable: str | None = None,
    x: str | None = None,
    hue: str | None = None,
    panels: str | None = None,
    log: Literal["x", "y", "x,y", ""] | None = None,
    group: str | None = None,
    where: str | None = None,
    title: str | None = None,
    size: str | None = None,
    digits: int = 6,
) -> None:
    """Draw the figures of an experiment, or standard figures.

    Prints the paths of the files.

    Examples: sweep plot results/vldb-fig2

      sweep plot results/vldb-table5 ratio --x d --output ratio.svg

    Parameters
    ----------
    figure : argument FIGURE, default: all that the experiment declares; if none, ratio or utility
        A figure of the experiment (by name, or figure-1, figure-2, ...), or ratio, cost, utility,
        privacy, scaling, variances, profile, covariance, convergence, gradient or regions.
    output : PATH, default: STORE/figures; ./figures if the store is not on a disk
        A file *.pdf, *.svg or *.png, or a folder for PDF files.
    variable : VARIABLE
        The variable to draw.
    x : AXIS
        The horizontal axis.
    hue : AXIS, default: mechanism
        Draw a line for each label of this axis.
    panels : AXIS
        Draw a panel for each label of this axis.
    log : x,y
        The logarithmic axes; '' for none.
    group : GROUP, default: all groups that have the figure
        Draw only this group.
    title : TEXT
        The title; '' for none.
    size : WxH, default: depends on the panels
        Width and height in inches, as in 3.4x2.4.
    """
    from sweep.dataset import reading
    from sweep.report import drawing, figures
    from sweep.store.places import location

    drawing.check_installed()
    dataset = _with_code_states(reading.open_dataset(store), store, where)
    experiment = reading.experiment_of(dataset)
    axes = None if log is None else tuple(filter(None, log.split(",")))
    inches = None if size is None else _inches(size)
    changes = {
        **{"variable": variable, "x": x, "hue": hue, "panels": panels, "where": where},
        **{"group": group, "log": axes, "title": title, "size": inches, "digits": digits},
    }
    named = [figure] if figure else figures.by_default(dataset, experiment)
    pictures = [
        picture
        for name in named
        for picture in figures.pictures(dataset, experiment, name, changes, location(store))
    ]
    for picture, path in drawing.files(pictures, output or _beside(store) / "figures"):
        picture.save(path)
        typer.echo(str(path))


def _with_code_states(results: "Results", store: str, where: str | None) -> "Results":
    """Return results in which ``code`` is current, edited or other if a condition uses ``code``."""
    from sweep.dataset import reading
    from workloads import conditions

    asked = where is not None and "code" in conditions.parse(where).names
    return reading.with_code_states(results, store) if asked else results


def _inches(size: str) -> tuple[float, float]:
    from sweep.errors import SweepError

    try:
        width, height = map(float, size.split("x"))
    except ValueError:
        width = height = 0.0
    if not (0 < width <= 100 and 0 < height <= 100):
        raise SweepError(f"--size {size!r}: expected WIDTHxHEIGHT in inches, as in 3.4x2.4")
    return width, height


def report(store: str, output: Path | None = None) -> None:
    """Write one HTML page with everything about a store.

    The page contains tables, figures, errors and the origin of the numbers, and needs no other
    file.

    Example: sweep report results/vldb-table5 --output table5.html

    Parameters
    ----------
    output : FILE.html, default: STORE/report.html
        The file to write.
    """
    from sweep.report import drawing, page
    from sweep.report import output as files

    drawing.check_installed()
    written = output or _beside(store) / "report.html"
    files.check(written)
    files.write(written, page.report(store))
    typer.echo(str(written))


def _beside(store: str) -> Path:
    """Return the folder for files about a store: the store's folder if the store is on a disk.

    For a store in an object store, return the current folder.
    """
    from sweep.store.places import location

    place = location(store)
    return place if isinstance(place, Path) else Path()


def advise(
    queries: Path,
    domain: Path,
    delta: float,
    epsilon: float | None = None,
    mechanism: list[str] | None = None,
    time_limit: float = 90.0,
    neighbours: str = "add-remove",
    output: Path | None = None,
    json_: bool = False,
) -> None:
    """Say what queries with accuracy targets cost in privacy.

    Shows what each target costs, what comes for free, and how accurate every answer is.

    Example: sweep advise queries.csv --domain domain.yaml --delta 1e-6

    Parameters
    ----------
    queries : argument QUERIES
        A CSV file with one query per row.
    domain : FILE
        A YAML file with the values of each attribute, such as 'age: 0..115'.
    delta : DELTA
        The δ of the privacy guarantee, for instance 1e-6.
    epsilon : EPSILON
        Also show how accurate the answers are at this ε.
    mechanism : NAME, default: all that might cost least
        Try only this mechanism. May be repeated.
    time_limit : SECONDS
        Time limit for all solves together.
    neighbours : RELATION
        How neighbouring databases differ: by one record added or removed (add-remove), or by the
        value of one record (replace-one).
    output : FILE
        Also write an HTML page, with a picture.
    json_ : flag
        Print the advice as JSON.
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
        files.write(output, advising.page(advice, queries.name))
    console = consoles.console()
    if json_:
        typer.echo(states.to_json(advising.content(advice)))
    else:
        formats.show(list(advising.sections(advice).values()), console)
    if output is not None and not json_:
        console.print(f"page: {output}", markup=False)


def scorecard(
    experiments: list[str] | None = None,
    stores: Path | None = None,
    quick: bool = False,
    read: bool = False,
    card: Path | None = None,
    output: list[Path] | None = None,
    format_: Literal["text", "markdown", "json"] = "text",
    cluster: Path | None = None,
    allow_code: bool = False,
    allow_mixed: bool = False,
    patience: float | None = None,
) -> None:
    """Judge every published number and claim of the papers.

    First solves the cells that are not in the stores yet or were solved by other code. After an
    interruption, the same command continues. The full sizes take hours on one machine.

    Example: sweep scorecard --quick --output card.json

    Parameters
    ----------
    experiments : argument EXPERIMENT, default: all that can be judged
        Shipped experiments, or paths of YAML files.
    stores : DIR, default: results; results/quick with --quick
        Folder with one store per experiment.
    quick : flag
        Run only the sizes that take seconds.
    read : flag
        Judge the results that are in the stores now; run nothing.
    card : FILE.json
        Show a scorecard that was written earlier.
    output : FILE
        Write the scorecard to FILE.json, or into the marked sections of FILE.md. May be repeated.
    format_ : FORMAT
        Output format: text, markdown or json.
    """
    from rich.markdown import Markdown

    from sweep.errors import SweepError, command
    from sweep.experiment.loading import load_experiment
    from sweep.report import consoles
    from sweep.report import output as files
    from sweep.report.messages import ProgressBar
    from sweep.runner import commands
    from sweep.runner.selection import STALE
    from sweep.runner.status import status
    from sweep.scorecard import card as cards
    from sweep.scorecard import page

    if card is not None and (quick or read or stores):
        raise SweepError("--card shows a finished scorecard; drop --stores, --quick and --read")
    if quick and read:
        raise SweepError("give either --quick or --read; --read judges what the stores have")
    outputs = output or []
    for path in outputs:  # a file that cannot be written is refused before anything is run
        files.check(path)
        _content(path, cards.taken({}))
    part = bool(experiments) and card is None
    kept = [path for path in outputs if part and path.suffix == ".json" and path.exists()]
    before = cards.read(kept[0]) if kept else None
    wanted = cards.judged(experiments or ())
    folder = stores or Path("results/quick" if quick else "results")
    if card is not None:
        score = cards.read(card)
        if experiments:
            score = score.of(*(experiment.name for experiment in wanted.values()))
    else:
        if not read:
            spec = cluster_of(cluster, allow_code=allow_code)
            options: dict[str, Any] = {"allow_code": allow_code, "allow_mixed": allow_mixed}
            options |= {"cluster": spec, "patience": patience}
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            for name, whole in wanted.items():
                experiment = load_experiment(name, whole.quick) if quick else whole
                store = folder / experiment.name
                with ProgressBar(consoles.console(error=True)) as bar:
                    commands.run(experiment, store, listen=bar, **options)
                    if status(str(store)).cells_of_other_code:
                        commands.rerun(store, STALE, listen=bar, **options)
        score = cards.score(list(wanted.values()), folder)
    for path in outputs:
        files.write(path, _content(path, before.updated(score) if before else score))
    console = consoles.console()
    if format_ == "text":
        console.print(Markdown(page.brief(score)))
    else:
        text = score.text() if format_ == "json" else page.markdown(score)
        console.print(text, markup=False, soft_wrap=True, end="")
    if card is None and score.unfinished:
        print_error(
            f"{score.unfinished} cells failed, timed out, were lost or are pending; "
            f"{command('status', f'{folder}/EXPERIMENT', '--errors')} shows why"
        )
        raise typer.Exit(TROUBLED)


def _content(path: Path, card: "Scorecard") -> str:
    """Return the content of a scorecard's file: JSON, or a page with its marked sections filled in.

    Raises SweepError if the suffix of ``path`` is neither ``.json`` nor ``.md``.
    """
    from sweep.errors import SweepError
    from sweep.experiment.files import text_of
    from sweep.scorecard import page

    if path.suffix == ".json":
        return card.text()
    if path.suffix == ".md":
        return page.filled(text_of("page", path, "a page has to exist"), card)
    raise SweepError(
        f"cannot write a scorecard to {str(path)!r}; expected FILE.json, or FILE.md with sections "
        "to fill in"
    )
