"""Writes the files that users request, and fills in the templates of this package."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jinja2

from sweep.dataset.pivots import label_text
from sweep.errors import SweepError, command
from sweep.report.tables import MISSING, NONE
from sweep.store.records import Status


def check(path: Path) -> None:
    """Check that a file can be written, before the work on its content begins.

    Raises
    ------
    SweepError
        If the file cannot be written.
    """
    with _explain_errors(path):
        existing = next(place for place in (path, *path.parents) if place.exists())
        if existing.is_dir() == (existing == path):
            kind = "folder" if existing == path else "file"
            raise OSError(errno.EINVAL, f"{str(existing)!r} is a {kind}")
        if not os.access(existing, os.W_OK):
            raise OSError(errno.EACCES, f"{str(existing)!r} is not writable")


def write(path: Path, content: str | bytes) -> None:
    """Write a file, creating its folder if necessary.

    Raises
    ------
    SweepError
        If the file cannot be written.
    """
    with _explain_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def _explain_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SweepError(
            f"cannot write {str(path)!r}: {error.strerror or error}; give another --output"
        ) from None


_WORDS = {MISSING, NONE, *(status.label.replace("_", " ") for status in Status)}


def render(template: str, **content: object) -> str:
    """Fill in a template with ``content`` and return the text."""
    return _make_environment().get_template(template).render(**content)


def render_blocks(template: str, **content: object) -> dict[str, list[str]]:
    """Fill in a text template and return the paragraphs of every block, by the block's name.

    Every paragraph is one line.
    """
    filled = _make_environment().get_template(template)
    context = filled.new_context(content)
    blocks = {}
    for name, render in filled.blocks.items():
        paragraphs = "".join(render(context)).split("\n\n")
        blocks[name] = [" ".join(part.split()) for part in paragraphs if part.strip()]
    return blocks


def _make_environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("sweep.report"),
        autoescape=jinja2.select_autoescape(["html"]),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["label"] = label_text
    environment.globals["command"] = command
    environment.tests["state"] = _WORDS.__contains__
    return environment
