"""The advice as one page of HTML that needs nothing else."""

from pathlib import Path

import jinja2

from solvers.advice import Advice
from sweep.errors import SweepError
from sweep.report.advice import advice_picture
from sweep.report.advice.sections import sections

_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.PackageLoader("sweep.report"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def page(advice: Advice, title: str) -> str:
    """The page; without matplotlib it says that it has no picture.

    Parameters
    ----------
    advice : Advice
        What it says.
    title : str
        Its heading, for instance the file of the queries.
    """
    template = _ENVIRONMENT.get_template("advice.html")
    return template.render(
        title=title, sections=sections(advice), picture=advice_picture.svg(advice)
    )


def write(advice: Advice, title: str, path: Path) -> None:
    """Write the page.

    Raises
    ------
    SweepError
        If it cannot be written.
    """
    try:
        path.write_text(page(advice, title), encoding="utf-8")
    except OSError as error:
        raise SweepError(
            f"page {str(path)!r} cannot be written ({error.strerror}); give another --output"
        ) from error
