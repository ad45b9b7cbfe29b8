"""The scorecard: numbers compared by plain rules, read from stores, written as JSON and a page."""

import json
from collections import Counter
from dataclasses import replace

import ledgers
import pytest

from sweep.errors import SweepError
from sweep.experiment.loading import parse_experiment
from sweep.experiment.schema import Claim
from sweep.runner import commands
from sweep.scorecard import card as cards
from sweep.scorecard import page
from sweep.scorecard.claims import Judgement
from sweep.scorecard.numbers import Verdict
from sweep.store.records import Status

pytestmark = pytest.mark.usefixtures("here")
OK = int(Status.OK)
MARKED = """# A page

<!-- scorecard: summary -->
stale
<!-- end of scorecard -->

Prose by hand.

<!-- scorecard: A paper, in short -->
<!-- end of scorecard -->

<!-- scorecard: other sources -->
<!-- end of scorecard -->
"""


WRITTEN = """\
title: Small prefixes
source: A paper, Table 1
reference: CA
blocks:
  - {workload: {name: prefix, d: [2, 4, 8]}, mechanism: [IP, GM, CA]}
published:
  - title: Table 1
    source: A paper, Table 1
    variable: squared_privacy_cost
    axes: {d: [2, 4, 8], mechanism: [IP, GM]}
    values: [[2.0, 2.0], [4.0, 4.1], [8.0, 8.0]]
closed_form:
  - {title: m over c, source: A paper, variable: squared_privacy_cost,
     axes: {d: [2], mechanism: [GM]}, values: [[2]]}
claims:
  - {text: IP is no worse than GM, source: A paper, variable: squared_privacy_cost,
     at: {mechanism: IP}, over: GM, most: 1}
  - {text: GM is best, source: A paper, variable: squared_privacy_cost,
     at: {mechanism: [IP, CA]}, over: GM, least: 1.01}
  - {text: GM is best, source: A paper, reading: IP is meant, variable: squared_privacy_cost,
     at: {mechanism: IP}, over: CA, least: 1.01}
  - {text: it is fast, source: A paper, unjudged: no size is stated}
quick: ["d=2,4"]
"""


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(WRITTEN)
    return path


@pytest.fixture
def scored(small, tmp_path, client):
    """The scorecard of the two quick sizes."""
    whole = parse_experiment(WRITTEN, "small.yaml")
    cut = parse_experiment(WRITTEN, "small.yaml", whole.quick)
    commands.run(cut, tmp_path / "stores" / "small", client)
    return cards.score([whole], tmp_path / "stores")


def test_a_table_says_how_many_statements_of_the_text_hold(scored, tmp_path, command):
    store = tmp_path / "stores" / "small"
    shown = " ".join(command("show", store).stdout.split())
    assert f"hold here: 2 of 4; 'sweep show {store} --claims' lists each with its" in shown


def test_a_scorecard_has_every_number_and_claim_and_is_read_back_as_written(scored, tmp_path):
    assert [row.verdict.name for row in scored.numbers] == [
        *("HOLDS", "HOLDS", "HOLDS", "FAILS", "UNJUDGED", "UNJUDGED"),
        "HOLDS",
    ]
    assert [row.kind for row in scored.numbers][-2:] == ["printed", "closed form"]
    assert [row.judgement.verdict.name for row in scored.claims] == [
        *("HOLDS", "FAILS", "HOLDS", "UNJUDGED")
    ]
    (run,) = scored.runs
    assert run.run_at == "d = 2, 4"
    assert run.statuses == {"ok": 6}
    assert run.revision
    assert run.machine

    (tmp_path / "card.json").write_text(scored.text())
    assert cards.read(tmp_path / "card.json") == scored
    content = json.loads(scored.text())
    assert content.keys() == {"runs", "numbers", "claims"}
    assert content["numbers"][3]["at"] == {"d": 4, "mechanism": "GM"}


def test_experiments_that_were_judged_again_replace_their_own(scored):
    def renamed(name):
        rows = [[replace(row, experiment=name) for row in part] for _, part in scored]
        return cards.Scorecard(runs=rows[0], numbers=rows[1], claims=rows[2])

    first, second = renamed("vldb-table9"), renamed("vldb-table10")
    empty = second.model_copy(update={"claims": ()})
    both = second.updated(first)
    assert [run.experiment for run in both.runs] == ["vldb-table9", "vldb-table10"]
    assert both.of("vldb-table9") == first
    assert len(both.updated(empty).claims) == len(scored.claims)


def test_sections_of_a_page_are_filled_and_the_prose_stays(scored):
    made = page.fill(MARKED, scored)
    assert "stale" not in made
    assert "Prose by hand." in made
    assert "| other sources | 3 ✓, 2 ?, 1 ✗ | 1 ✓ | 1 ✓, 1 ?, 1 ✗ |" in made
    assert "**`small`**, A paper, Table 1: Small prefixes. Run: d = 2, 4." in made
    assert "m over c (closed form): all 1 ✓." in made
    assert "4.1 / 4 ✗ -2.44 % |" in made
    assert "- Table 1 (`small`): GM, d = 4: 4.1 / 4 ✗ -2.44 %; “GM is best”: *unexplained*" in made
    assert "- “GM is best” (IP, CA / GM `squared_privacy_cost`: ≥ 1.01): **✗**, 0." in made
    assert "; read as IP is meant: **✓**, 1.382–" in made  # 2 / (1 + 1 / sqrt(5)) at d = 2
    assert page.fill(made, scored) == made
    with pytest.raises(SweepError, match="no section"):
        page.fill("# A page\n", scored)


@pytest.mark.parametrize(("within", "verdict"), [([100, 1], "HOLDS"), ([100, 0], "FAILS")])
def test_a_table_of_many_draws_does_not_outvote_the_others(within, verdict):
    claim = Claim(text="GM is often worse", variable="runtime_s", least=1, share=0.75)
    rows = [
        cards.ClaimRow(
            experiment=f"table{at}",
            claim=claim,
            judgement=Judgement(Verdict.HOLDS, points=points, against=points - within[at]),
        )
        for at, points in enumerate((100, 1))
    ]
    assert page.Sentence(rows).verdict.name == verdict


@pytest.mark.parametrize(
    ("setting", "verdicts", "cells"),
    [
        ("targets=random", ["UNJUDGED"] * 7, {}),
        ("d=2,3", ["HOLDS"] * 2 + ["UNJUDGED"] * 4 + ["HOLDS"], {"ok": 3}),
    ],
)
def test_only_problems_of_the_file_are_compared_with_its_numbers(
    setting, verdicts, cells, tmp_path, client
):
    commands.run(parse_experiment(WRITTEN, "small.yaml", [setting]), tmp_path / "small", client)
    card = cards.score([parse_experiment(WRITTEN, "small.yaml")], tmp_path)
    assert [row.verdict.name for row in card.numbers] == verdicts
    assert card.runs[0].statuses == cells


def test_ratios_are_to_the_reference_of_the_file_whatever_that_of_the_run(tmp_path, client):
    text = WRITTEN.replace("squared_privacy_cost", "variance_ratio")
    for reference in ("CA", "IP"):
        settings = [f"reference={reference}", "d=2"]
        store = tmp_path / reference / "small"
        commands.run(parse_experiment(text, "small.yaml", settings), store, client)
    experiment = parse_experiment(text, "small.yaml")
    by_ca, by_ip = (cards.score([experiment], tmp_path / run) for run in ("CA", "IP"))
    assert by_ca.numbers[0].median is not None
    assert (by_ip.numbers, by_ip.claims) == (by_ca.numbers, by_ca.claims)


def test_an_experiment_without_a_store_is_not_run(tmp_path):
    card = cards.score([parse_experiment(WRITTEN, "small.yaml")], tmp_path)
    assert {row.verdict for row in card.numbers} == {Verdict.UNJUDGED}
    reasons = [row.judgement.reason for row in card.claims]
    assert reasons == [*["not run"] * 3, "no size is stated"]
    assert "Not run." in page.to_markdown(card)


def test_the_cells_of_a_store_count_under_another_name(tmp_path, scored):
    other = parse_experiment(WRITTEN, "other.yaml")
    (tmp_path / "stores" / "small").rename(tmp_path / "stores" / "other")
    medians = [row.median for row in cards.score([other], tmp_path / "stores").numbers]
    assert medians == [row.median for row in scored.numbers]


def test_the_command_runs_judges_and_writes(small, tmp_path, command, on_the_test_cluster):
    (tmp_path / "page.md").write_text(MARKED)
    ran = command(
        "scorecard", "small.yaml", "--quick", "--output", "card.json", "--output", "page.md"
    )
    assert ran.exit_code == 0, ran.output
    assert (tmp_path / "results/quick/small").is_dir()
    assert "4.1 / 4 ✗" in (tmp_path / "page.md").read_text()
    shown = command("scorecard", "--card", "card.json", "--format", "json")
    assert json.loads(shown.stdout) == json.loads((tmp_path / "card.json").read_text())
    again = command("scorecard", "small.yaml", "--read", "--stores", "results/quick")
    assert again.exit_code == 0, again.output


def test_only_cells_of_another_revision_are_solved_again(
    small, command, records, on_the_test_cluster
):
    store = small.parent / "stores" / "small"

    def solved():
        assert command("scorecard", "small.yaml", "--quick", "--stores", "stores").exit_code == 0
        return Counter(record.cell for record in records(store))

    once = solved()
    assert set(once.values()) == {1}
    assert solved() == once
    aged, edited, *_ = once

    def other(one):
        if getattr(one, "cell", "") == aged:
            return replace(one, code="other")
        if getattr(one, "cell", "") == edited:
            return replace(one, code=one.code[:14] + "edited")
        return one

    ledgers.rewrite(store, other)
    assert solved() - once == {aged: 1}


def test_a_file_that_is_no_scorecard_is_not_written_over(tmp_path, refusal):
    (tmp_path / "mine.json").write_text("[1, 2]")
    said = refusal("scorecard", "vldb-table2", "--output", "mine.json")
    assert "is not a scorecard" in said
    assert (tmp_path / "mine.json").read_text() == "[1, 2]"
    (tmp_path / "folder.json").mkdir()
    said = refusal("scorecard", "vldb-table2", "--output", "folder.json")
    assert "'folder.json' is a folder" in said
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--quick", "--read"], "give either --quick or --read"),
        (["--card", "no.json"], "give a FILE.json of 'sweep scorecard --output'"),
        (["--card", "no.json", "--read"], "--card shows a finished scorecard"),
        (["--output", "card.txt"], "expected FILE.json"),
        (["--output", "none.md"], "'none.md' cannot be read"),
    ],
)
def test_mistakes_are_reported_before_anything_runs(words, said, tmp_path, refusal):
    assert said in refusal("scorecard", *words)
    assert list(tmp_path.iterdir()) == []
