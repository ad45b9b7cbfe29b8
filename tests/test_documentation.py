"""The documentation's examples run, and its commands exist."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def commands(page):
    for block in blocks(page, "console"):
        for line in block.splitlines():
            if line.startswith("$ sweep "):
                yield line.removeprefix("$ sweep ")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "example"}
    examples = blocks(page, "python")
    for example in examples:
        exec(compile(example, str(page), "exec"), names)
    assert page.exists()


def test_the_readmes_commands_run_in_their_order(tmp_path, monkeypatch):
    import shlex

    from sweep.cli import app

    monkeypatch.chdir(tmp_path)
    found = list(commands(ROOT / "README.md"))
    assert len(found) >= 4
    for command in found:
        result = CliRunner().invoke(app, shlex.split(command))
        assert result.exit_code == 0, f"sweep {command}: {result.output}"


def test_the_readmes_experiment_is_one(tmp_path):
    import sweep
    from sweep.grid import expand

    mine = tmp_path / "mine.yaml"
    mine.write_text(blocks(ROOT / "README.md", "yaml")[0])
    (grid,) = expand(sweep.load_experiment(str(mine)))
    assert len(grid.cells) == 2 * 2 * 6 * 3


def test_links_between_pages_lead_somewhere():
    broken = [
        f"{page.name}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []
