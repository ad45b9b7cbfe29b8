"""The console on which commands print; it escapes control characters."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

BROKEN_PIPE = 128 + 13
TABLE: Mapping[str, Any] = {
    "box": box.SIMPLE_HEAD,
    "title_justify": "left",
    "padding": (0, 1, 0, 0),
    "show_edge": False,
    "pad_edge": False,
}
"""Style of the tables of numbers."""
_PIPE_WIDTH = 160
_NARROWEST = 40
_LONGEST_SENTENCE = 4000


class Terminal(Console):
    """A console that shows control characters instead of sending them to the terminal.

    When its output is closed, the console calls ``when_closed``. By default the command ends, with
    the exit code that a shell gives to a tool whose output was closed.
    """

    def __init__(self, *, when_closed: Callable[[], None] | None = None, **options: Any) -> None:
        super().__init__(emoji=False, **options)
        self._when_closed = when_closed

    def print(self, *objects: Any, **options: Any) -> None:
        """Print, unless the output is closed."""
        try:
            super().print(*objects, **options)
        except OSError:
            if self._when_closed is None:
                raise
            self.on_broken_pipe()

    def on_broken_pipe(self) -> None:
        """Stop printing, and call ``when_closed``."""
        self.quiet = True
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, self.file.fileno())
        os.close(nothing)
        if self._when_closed is None:
            raise SystemExit(BROKEN_PIPE)
        self._when_closed()

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """The segments of a renderable, with their texts `escaped`."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=escaped(segment.text))

    def render_str(self, text: str, **options: Any) -> Text:
        """Render a text with markup; the text is `escaped` first, before its width is measured."""
        return super().render_str(escaped(text), **options)


def escaped(text: str) -> str:
    """The text with control, formatting and lone surrogate characters as escape sequences."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in "\n\t\u00a0" else c.encode("unicode_escape").decode()
        for c in text
    )


def sentence(text: str) -> str:
    """The escaped text; if it is very long, without its middle."""
    shown, half = escaped(text), _LONGEST_SENTENCE // 2
    return shown if len(shown) <= 2 * half else f"{shown[:half]} [...] {shown[-half:]}"


def console(*, when_closed: Callable[[], None] | None = None, error: bool = False) -> Console:
    """A console as wide as the terminal, or wide enough for our tables if there is no terminal.

    Some terminals report a width of 0, at which nothing would be shown; so there is a least width.
    """
    stream = sys.stderr if error else sys.stdout
    wide = None if stream.isatty() or "COLUMNS" in os.environ else _PIPE_WIDTH
    terminal = Terminal(
        when_closed=when_closed, stderr=error, width=wide, highlight=False, soft_wrap=error
    )
    terminal.width = max(terminal.width, _NARROWEST)
    return terminal
