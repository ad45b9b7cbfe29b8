"""The pages on reproduction match the stored scorecard, which matches today's results."""

from pathlib import Path

import pytest

from sweep.experiment.files import list_experiments
from sweep.experiment.loading import load_experiment
from sweep.runner import commands
from sweep.scorecard import card as cards
from sweep.scorecard import page

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "reproduction.md", *sorted((DOCS / "reproduction").glob("*.md"))]
AGAIN = (
    "'sweep scorecard EXPERIMENT --output docs/scorecard.json' judges it again; "
    "docs/reproduction.md has the command that writes the pages"
)
CHEAP = {
    "vldb-table2": ["d=2,4,8"],
    "arxiv-fig2": ["attributes=2,3,4,5"],
    "vldb-table7": ["d=64", "mechanism=IP,CA,optimal"],
    "fisher-fig2": [],
    "post13-fig6b": ["epsilon=1.2,1.3"],
}
"""Experiments that take a few seconds each, at these sizes."""
MARKED = [
    name if name != "vldb-table7" else pytest.param(name, marks=pytest.mark.slow) for name in CHEAP
]
CERTIFIED = 1e-3
"""Twice the relative gap that SM-II certifies; every other mechanism here is closer."""


@pytest.fixture(scope="module")
def stored():
    return cards.read(DOCS / "scorecard.json")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_pages_are_the_stored_scorecard(path, stored):
    written = path.read_text()
    assert page.fill(written, stored) == written, AGAIN


def test_every_paper_has_its_page():
    sections = [name for path in PAGES for name in page.SECTION.findall(path.read_text())]
    assert sorted(sections) == sorted(
        [
            "in two minutes",
            "summary",
            *(f"{name}{end}" for name in page.SOURCES for end in ("", ", in short")),
        ]
    )


def test_every_number_and_every_claim_that_ships_is_judged(stored):
    for name in list_experiments():
        experiment = load_experiment(name)
        if not (experiment.scorecard and experiment.is_compared):
            continue
        part = stored.of(name)
        tables = (*experiment.published, *experiment.closed_form)
        assert {(row.table, row.source) for row in part.numbers} == {
            (one.title or one.variable, one.source) for one in tables if not one.repeats
        }, f"{name}: {AGAIN}"
        assert [row.claim for row in part.claims] == list(experiment.claims), f"{name}: {AGAIN}"


@pytest.mark.parametrize("name", MARKED)
def test_cheap_rows_are_what_is_computed_today(name, stored, tmp_path, client):
    experiment = load_experiment(name)
    commands.run(load_experiment(name, CHEAP[name]), tmp_path / name, client)
    now = cards.score([experiment], tmp_path)
    before = {_key(row): row for row in stored.of(name).numbers}
    compared = [row for row in now.numbers if row.median is not None]
    assert compared or not experiment.published
    for row in compared:
        then = before[_key(row)]
        assert then.draws == row.draws
        assert _measured(row) == pytest.approx(_measured(then), rel=CERTIFIED)
    for then, row in zip(stored.of(name).claims, now.claims, strict=True):
        least, most = row.judgement.least, row.judgement.most
        if least is not None and not row.judgement.reason.startswith("without"):
            assert least >= then.judgement.least * (1 - CERTIFIED)
            assert most <= then.judgement.most * (1 + CERTIFIED)


def _key(row):
    return (row.kind, row.table, row.variable, tuple(sorted(row.at.items())))


def _measured(number):
    return (number.median, number.least, number.most)
