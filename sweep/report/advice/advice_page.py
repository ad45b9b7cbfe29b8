"""The advice as one page of HTML that needs nothing else."""

from solvers.advice import Advice
from sweep.report.advice import advice_picture
from sweep.report.advice.sections import sections
from sweep.report.documents import pages


def page(advice: Advice, title: str) -> str:
    """The page under that heading; without matplotlib it says that it has no picture."""
    return pages.rendered(
        "advice.html", title=title, sections=sections(advice), picture=advice_picture.svg(advice)
    )
