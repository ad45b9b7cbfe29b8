"""HTML from the templates of this package; everything filled in is escaped."""

from typing import Any

import jinja2

from sweep.report.numbers.layout import MISSING, NONE, Table
from sweep.store.records import Status

_WORDS = {MISSING, NONE, *(status.label.replace("_", " ") for status in Status)}


def rendered(template: str, **content: Any) -> str:
    """A template filled in."""
    return _environment().get_template(template).render(**content)


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("sweep.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["rows"] = _rows
    environment.tests["state"] = _WORDS.__contains__
    return environment


def _rows(table: Table) -> list[tuple[tuple[str, ...], list[str]]]:
    """Labels and texts of every row."""
    return list(zip(table.labels, table.shown.to_numpy().tolist(), strict=True))
