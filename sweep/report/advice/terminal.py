"""Advice on the screen."""

from collections.abc import Iterable, Iterator

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sweep.report.advice.sections import Section


def advice(parts: Iterable[Section]) -> Iterator[RenderableType]:
    """Advice in sentences and tables."""
    for part in parts:
        yield Text(part.title, style="bold")
        yield from (Text(sentence) for sentence in part.sentences)
        if part.columns:
            table = Table(*part.columns, box=None, padding=(0, 2, 0, 0))
            for row in part.rows:
                table.add_row(*map(escape, row))
            yield table
        yield ""
