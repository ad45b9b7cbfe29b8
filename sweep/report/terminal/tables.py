"""Tables on the screen."""

from collections.abc import Iterable
from itertools import pairwise, takewhile

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sweep.report.numbers import layout
from sweep.report.terminal import consoles
from sweep.store.records import Status

_QUIET = (Status.ABSENT, Status.PENDING, Status.NOT_APPLICABLE)
_STYLES = {
    **{status.label.replace("_", " "): "dim" if status in _QUIET else "red" for status in Status},
    layout.NONE: "dim",
    layout.UNPRINTED: "dim",
}
_LONG = 40
"""A column with a longer text, in characters, breaks its lines."""


def show(tables: Iterable[layout.Table], console: Console) -> None:
    """Print tables one below the other."""
    for table in tables:
        console.print(laid_out(table))
        console.print()


def laid_out(table: layout.Table) -> Table:
    """A table on the screen, without labels that repeat those above."""
    shown, labels = table.shown, table.labels
    grid = Table(
        title=escape(table.title),
        caption=escape("\n".join(table.notes)),
        caption_justify="left",
        **consoles.TABLE,
    )
    for at, name in enumerate(shown.index.names):
        long = any(len(label[at]) > _LONG for label in labels)
        grid.add_column(str(name or ""), no_wrap=not long)
    for name, column in shown.items():
        long = column.map(len).max() > _LONG
        grid.add_column(str(name).replace(" (", "\n("), justify="left" if long else "right")
    rows = shown.to_numpy().tolist()
    for (before, here), after, texts in zip(
        pairwise([(), *labels]), [*labels[1:], ()], rows, strict=True
    ):
        beside = here[-1] in layout.BESIDE
        grid.add_row(
            *_fresh(before, here),
            *(Text(text, style=_STYLES.get(text, "")) for text in texts),
            style="dim" if beside else None,
            end_section=len(here) > 1 and here[:1] != after[:1],
        )
    return grid


def _fresh(before: tuple[str, ...], here: tuple[str, ...]) -> list[str]:
    """The labels of a row from the first one that differs from the row before."""
    pairs = zip(before, here, strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return ["" if at < same else label for at, label in enumerate(here)]
