"""The console on which commands print; it escapes control characters."""

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

BROKEN_PIPE = 128 + 13
_PIPE_WIDTH = 160
"""Width of output that goes to no terminal, in characters: twice the common 80, since nothing there
limits a line, and a table that is split is harder to read by programs."""
_NARROWEST = 40
"""Least width of a console, in characters; in less, headings would be broken letter by letter."""
_LONGEST_SENTENCE = 4000
"""An error has at most so many characters, two screens; a user's exception may contain a matrix."""


class Terminal(Console):
    """A console that prints control characters as escape sequences.

    When its output is closed, the console stops printing and calls ``when_closed``. Without such a
    function, the command ends with the exit code that a shell gives to a tool whose output was
    closed.
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
        """Yield the segments of a renderable, with their texts `escape`."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=escape(segment.text))

    def render_str(self, text: str, **options: Any) -> Text:
        """Render a text with markup; the text is `escape` first, before its width is measured."""
        return super().render_str(escape(text), **options)


def escape(text: str) -> str:
    """Replace control characters and other unprintable characters with escape sequences.

    Newlines, tabs and no-break spaces are not replaced.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in "\n\t\u00a0" else c.encode("unicode_escape").decode()
        for c in text
    )


def shorten(text: str) -> str:
    """Return the escaped text; the middle of a very long text is left out."""
    shown, half = escape(text), _LONGEST_SENTENCE // 2
    return shown if len(shown) <= 2 * half else f"{shown[:half]} [...] {shown[-half:]}"


def make_console(*, when_closed: Callable[[], None] | None = None, error: bool = False) -> Console:
    """Return a console as wide as the terminal or, if there is none, wide enough for most tables.

    The console has a least width because some terminals report a width of 0.
    """
    stream = sys.stderr if error else sys.stdout
    wide = None if stream.isatty() or "COLUMNS" in os.environ else _PIPE_WIDTH
    terminal = Terminal(
        when_closed=when_closed, stderr=error, width=wide, highlight=False, soft_wrap=error
    )
    terminal.width = max(terminal.width, _NARROWEST)
    return terminal
