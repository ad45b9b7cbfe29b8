"""Commands that show what a store holds: ``show``, ``plot`` and ``report``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from sweep.cli.errors import error_handling
from sweep.cli.options import StoreFolder, WhereOption, check_choice


def show(
    store: StoreFolder,
    form: Annotated[
        str, typer.Option("--format", help="text, markdown, latex, csv, html or json.")
    ] = "text",
    value: Annotated[
        str | None, typer.Option(metavar="VARIABLE", help="The variable to show. [variance_ratio]")
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
            help="Shown beside a mean over replicates: its standard error (error), the smallest "
            "and largest value (range), or nothing (none). [error]"
        ),
    ] = None,
) -> None:
    """Print the papers' tables beside the measured numbers, or any variable as a table.

    Examples: sweep show results/vldb-table4 --format latex

      sweep show results/vldb-table5 --rows d --value gap --where "mechanism != 'IP'"
    """
    with error_handling():
        from sweep.dataset import reading
        from sweep.dataset.reading import LARGE_TEXTS, open_dataset
        from sweep.report import consoles, formats, tables
        from sweep.report.layout import SPREADS, Wanted

        check_choice("--format", form, formats.FORMATS)
        check_choice("--spread", spread or "error", SPREADS)
        expressions = " ".join(filter(None, (value, rows, columns, where)))
        dataset = open_dataset(store, [name for name in LARGE_TEXTS if name not in expressions])
        experiment = reading.experiment_of(dataset)
        wanted = {"value": value, "columns": columns, "where": where, "spread": spread}
        given: dict[str, Any] = {key: text for key, text in wanted.items() if text is not None}
        if rows is not None:
            given["rows"] = tuple(name.strip() for name in rows.split(","))
        if form == "text" and not given:
            formats.show(tables.all_tables(dataset, experiment, "none"), consoles.console())
            return
        if given.keys() <= {"spread"}:
            listed = tables.all_tables(dataset, experiment, **given)
            shown = [table for table in listed if len(table.shown)]
        else:
            shown = tables.requested(dataset, Wanted(**given))
        if form == "text":
            formats.show(shown, consoles.console())
        else:
            typer.echo(consoles.escaped(formats.RENDERERS[form](shown)), nl=False)


_Figure = Annotated[
    str | None,
    typer.Argument(
        metavar="FIGURE",
        help="A figure of the experiment, or ratio, cost, utility, privacy, scaling, "
        "variances, profile, covariance or convergence. [those it declares]",
    ),
]
_Output = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        help="A file *.pdf, *.svg or *.png, or a folder for PDF files. [STORE/figures; "
        "figures for a store that is not on a disk]",
    ),
]
_Variable = Annotated[str | None, typer.Option(metavar="VARIABLE", help="The variable to draw.")]
_X = Annotated[str | None, typer.Option("--x", metavar="AXIS", help="The horizontal axis.")]
_Hue = Annotated[
    str | None,
    typer.Option(metavar="AXIS", help="Draw a line for each of its labels. [mechanism]"),
]
_Panels = Annotated[
    str | None, typer.Option(metavar="AXIS", help="Draw a panel for each of its labels.")
]
_Log = Annotated[str | None, typer.Option(metavar="x,y", help="The logarithmic axes; '' for none.")]
_Group = Annotated[
    str | None, typer.Option(metavar="GROUP", help="Draw this group only. [all that have it]")
]


def plot(
    store: StoreFolder,
    figure: _Figure = None,
    output: _Output = None,
    variable: _Variable = None,
    x: _X = None,
    hue: _Hue = None,
    panels: _Panels = None,
    log: _Log = None,
    group: _Group = None,
    where: WhereOption = None,
) -> None:
    """Draw the figures of an experiment, or a standard one, and print the file names.

    Examples: sweep plot results/vldb-fig2

      sweep plot results/vldb-table5 ratio --x d --output ratio.svg
    """
    with error_handling():
        from sweep.dataset import reading
        from sweep.dataset.reading import open_dataset
        from sweep.report import drawing, frames, gallery
        from sweep.store.location import located

        drawing.check_installed()
        dataset = open_dataset(store)
        experiment = reading.experiment_of(dataset)
        axes = None if log is None else tuple(_listed(log))
        for axis in axes or ():
            check_choice("--log", axis, ("x", "y"))
        changes = gallery.Changes(variable, x, hue, panels, where, group, axes)
        named = [figure] if figure else gallery.by_default(dataset, experiment)
        pictures = [
            picture
            for name in named
            for picture in gallery.pictures(dataset, experiment, name, changes, located(store))
        ]
        for picture, path in drawing.files(pictures, output or _beside(store) / "figures"):
            drawing.save(picture, path, frames.facts(dataset))
            typer.echo(str(path))


def report(
    store: StoreFolder,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="The file. [STORE/report.html]"),
    ] = None,
) -> None:
    """Write one HTML file with everything: progress, failures, tables, figures and origin.

    Example: sweep report results/vldb-table5 --output table5.html
    """
    with error_handling():
        from sweep.report import drawing, page
        from sweep.report import output as files

        drawing.check_installed()
        written = output or _beside(store) / "report.html"
        if output is not None:
            files.check(output)
        files.write(written, page.report(store))
        typer.echo(str(written))


def _beside(store: str) -> Path:
    """Where to write files of a store: its folder, or the current one if it is not on a disk."""
    from sweep.store.location import located

    place = located(store)
    return place if isinstance(place, Path) else Path()


def _listed(text: str) -> list[str]:
    """The names of ``"a, b"``."""
    return [name.strip() for name in text.split(",") if name.strip()]
