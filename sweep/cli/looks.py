"""Commands that show what a store holds: ``show``, ``plot`` and ``report``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from sweep.cli.endings import sentences
from sweep.cli.options import StoreFolder, WhereOption


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
    with sentences():
        from sweep.dataset.reading import LARGE_TEXTS, open_dataset
        from sweep.plan.stored import experiment_of
        from sweep.report.documents import formats
        from sweep.report.numbers.layout import SPREADS, Wanted
        from sweep.report.tables import exports
        from sweep.report.terminal import consoles, tables
        from sweep.store.folder import open_

        _check_choice("--format", form, formats.FORMATS)
        _check_choice("--spread", spread or "error", SPREADS)
        asked = " ".join(filter(None, (value, rows, columns, where)))
        dataset = open_dataset(store, [name for name in LARGE_TEXTS if name not in asked])
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
            tables.show(exports.tables(dataset, experiment, "none"), consoles.console())
            return
        if given.keys() <= {"spread"}:
            made = exports.tables(dataset, experiment, **given)
            found = [table for table in made if len(table.shown)]
        else:
            found = exports.asked(dataset, Wanted(**given))
        if form == "text":
            tables.show(found, consoles.console())
        else:
            typer.echo(consoles.escaped(formats.RENDERERS[form](found)), nl=False)


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
    with sentences():
        from sweep.dataset.reading import open_dataset
        from sweep.plan.stored import experiment_of
        from sweep.report.documents import origin
        from sweep.report.figures import drawing, gallery
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


def report(
    store: StoreFolder,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="The file. [STORE/report.html]")
    ] = None,
) -> None:
    """Write one HTML file with everything: progress, failures, tables, figures and origin.

    Example: sweep report results/vldb-table5 --output table5.html
    """
    with sentences():
        from sweep.report import output as files
        from sweep.report.documents import page
        from sweep.report.figures import drawing

        drawing.check_installed()
        written = output or _beside(store) / "report.html"
        files.write(written, page.report(store))
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
