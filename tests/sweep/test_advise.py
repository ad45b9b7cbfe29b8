"""`sweep advise`: its words, its page and its JSON, on the tutorial's files."""

import json
import os
import re
import sys
from pathlib import Path

import pytest

import sweep
from sweep.experiment.loading import parse_experiment
from sweep.grid.expansion import expand
from sweep.report import advice as advising

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = DOCS / "examples"
FILES = (str(EXAMPLES / "queries.csv"), "--domain", str(EXAMPLES / "domain.yaml"))
ONLY = ("--mechanism", "CA", "--mechanism", "optimal", "--mechanism", "fisher-bounded")
HOSTILE = "<script>alert('$x^2$')</script>"


@pytest.fixture(scope="module")
def advice():
    queries = {"label": [HOSTILE, "ages"], "age": ["", "*"], "margin": ["3", "4"]}
    return sweep.advise(queries, {"age": "0..3"}, delta=1e-6, mechanisms=["CA", "optimal"])


def test_the_tutorials_files_are_advised_on(command, tmp_path):
    page = tmp_path / "advice.html"
    found = command("advise", *FILES, "--delta", "1e-6", *ONLY, "--output", page)
    assert found.exit_code == 0, found.output
    said = " ".join(found.stdout.split())
    assert "All 34 targets over 144 cells are met at ε = 0.5871" in said
    assert "protects whether any one record is present" in said
    assert "Relaxing the 5 dearest (children, up to each age, by region" in said
    assert "predicted to save 8.54 % of Δ²; a new solve saves 8.49 %" in said
    written = page.read_text()
    assert re.findall(r"(?:src|href)=.(?!#|data:)[^ >]*", written) == []
    assert "girls of school age in the south" in written
    unfolded = re.sub(r"<details>.*?</details>", "", written, flags=re.DOTALL)
    assert unfolded.index("ε = 0.5871") < unfolded.index("dearest") < unfolded.index("± ")
    assert "fisher-bounded" not in unfolded, "all mechanisms are folded"


def test_the_tutorial_shows_the_files_that_it_names():
    tutorial = (DOCS / "advice.md").read_text()
    assert (EXAMPLES / "domain.yaml").read_text().partition("\n")[2] in tutorial
    shown = [
        [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in tutorial.splitlines()
        if line.startswith("|")
    ]
    for line in (EXAMPLES / "queries.csv").read_text().splitlines():
        assert line.split(",") in shown


def test_the_tutorials_experiment_is_one(monkeypatch):
    monkeypatch.chdir(DOCS.parent)
    (text,) = (t for t in (DOCS / "advice.md").read_text().split("```")[1::2] if "blocks:" in t)
    (grid,) = expand(parse_experiment(text, "advice.yaml"))
    assert len(grid.cells) == 4


def test_json_has_all_numbers(command):
    found = command("advise", *FILES, "--delta", "1e-6", *ONLY, "--epsilon", "0.5", "--json")
    content = json.loads(found.stdout)
    assert content["recommended"] == "optimal"
    epsilons = {one["mechanism"]: one["epsilon"] for one in content["mechanisms"]}
    assert (list(epsilons), epsilons["fisher-bounded"]) == (
        ["optimal", "CA", "fisher-bounded"],
        None,
    )
    assert sum(one["elasticity"] for one in content["prices"]) == pytest.approx(1.0)
    assert content["budget"]["variance_ratio_at_budget"] == pytest.approx(1.3498, rel=1e-3)
    assert len(content["answers"]) == content["queries"] == 34


def test_texts_of_users_are_escaped_on_the_page(advice):
    page = advising.render_page(advice, HOSTILE)
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 3
    assert "data:image/svg+xml;base64," in page


def test_without_matplotlib_the_page_says_so(advice, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = advising.render_page(advice, "mine")
    assert "Without a picture: figures need matplotlib, which does not start" in page
    assert "data:image" not in page


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("none.csv", "--domain", FILES[2], "--delta", "1e-6"), "'none.csv' cannot be read"),
        ((*FILES, "--delta", "2"), "delta is 2.0; expected a number between 0 and 1"),
        ((*FILES, "--delta", "1e-6", "--epsilon", "0"), "epsilon is 0.0; expected a positive"),
        ((*FILES, "--delta", "1e-6", *ONLY, "--output", f"{FILES[0]}/page"), "is a file; give"),
    ],
)
def test_mistakes_are_sentences(words, said, refusal):
    """A page that cannot be written is refused before the advice."""
    assert said in refusal("advise", *words)


def test_a_page_that_may_not_be_written_is_refused_before_the_advice(
    tmp_path, refusal, monkeypatch
):
    monkeypatch.setattr(os, "access", lambda place, how: place != tmp_path)
    words = (*FILES, "--delta", "1e-6", *ONLY, "--output", tmp_path / "folder" / "page.html")
    assert f"'{tmp_path}' is not writable; give another --output" in refusal("advise", *words)


def test_advice_names_answers_that_are_public_to_the_neighbours(tmp_path, command):
    (tmp_path / "mine.csv").write_text("label,region,variance\nall,,4\nby region,*,4\n")
    words = (*FILES[1:], "--delta", "1e-6", "--mechanism", "optimal", "--neighbours", "replace-one")
    said = command("advise", tmp_path / "mine.csv", *words).output
    assert "protects the value of any one record: neighbours differ by replacing" in said
    assert "1 answer without any noise: to these neighbours such counts are public." in said
