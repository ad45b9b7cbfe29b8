"""The documentation's examples run, its commands exist, and it leaves no name out."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import solvers
import sweep
import workloads
from solvers.marginals import structure
from solvers.problem import as_problem
from sweep.cli import app
from sweep.dataset import variables
from sweep.experiment.loading import experiments
from sweep.grid.expansion import expand
from sweep.runner import clusters

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
ONE_THREAD = """\
version: 1
module: dask.distributed
class: LocalCluster
kwargs:
  {n_workers: 1, threads_per_worker: 1, processes: false, dashboard_address: null, silence_logs: 50}
"""
SINGLE_QUERY_AND_MARGINALS = """\
  - workload: {name: average, n: 4}
    targets: uniform
    mechanism: [IP, optimal]
  - workload: {name: marginals, attributes: 60, values: 10, orders: [1]}
    targets: uniform
    mechanism: [even-cells, optimal]
"""


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def commands(page):
    for block in blocks(page, "console"):
        for line in block.splitlines():
            if line.startswith("$ sweep "):
                yield line.removeprefix("$ sweep ")


def written_names(page):
    """What stands between backquotes."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return set(re.findall(r"`([^`\n]+)`", prose))


@pytest.fixture
def one_thread(tmp_path, monkeypatch):
    """In a folder of its own, with a cluster inside this process."""
    written = tmp_path / "one-thread.yaml"
    written.write_text(ONE_THREAD)
    monkeypatch.setattr(clusters, "LOCAL", clusters.load(written))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_examples_run(page, one_thread):
    names = {"__name__": "example"}
    examples = blocks(page, "python")
    for example in examples:
        exec(compile(example, str(page), "exec"), names)
    assert len(names) > 1 or not examples


@pytest.mark.parametrize("page", [p for p in PAGES if any(commands(p))], ids=lambda page: page.name)
def test_commands_run_in_their_order(page, one_thread):
    for command in commands(page):
        result = CliRunner().invoke(app, shlex.split(command))
        assert result.exit_code == 0, f"sweep {command}: {result.output}"


def test_the_readmes_experiment_is_one(tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_text(blocks(ROOT / "README.md", "yaml")[0])
    (grid,) = expand(sweep.load_experiment(str(mine)))
    assert len(grid.cells) == 2 * 2 * 6 * 3


def test_every_file_of_an_experiment_or_a_cluster_is_valid(tmp_path):
    found = [
        (page, text)
        for page in PAGES
        if page.name != "mechanisms.md"
        for text in blocks(page, "yaml")
    ]
    for number, (page, text) in enumerate(found):
        written = tmp_path / f"{page.stem}-{number}.yaml"
        written.write_text(text)
        if re.search("^blocks:", text, re.MULTILINE):
            assert expand(sweep.load_experiment(str(written)))
        elif re.search("^module:", text, re.MULTILINE):
            assert clusters.load(written).module


def test_what_is_called_a_command_or_an_experiment_is_one():
    ours = {command.name or command.callback.__name__ for command in app.registered_commands}
    named = {name for page in PAGES for name in written_names(page)}
    called = {match[1] for name in named if (match := re.match(r"sweep ([a-z]+)", name))}
    assert called <= ours
    kinds = r"(vldb|arxiv|kdd16|post13|fisher)-[a-z0-9]+"
    shipped = experiments().keys() | solvers.all_mechanisms().keys()
    assert {name for name in named if re.fullmatch(kinds, name)} <= shipped


def test_links_between_pages_lead_somewhere():
    broken = [
        f"{page.name}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []


@pytest.mark.parametrize(
    "known",
    [solvers.all_mechanisms(), workloads.families(), workloads.targets.rules()],
    ids=["mechanisms", "workloads", "targets"],
)
def test_every_name_that_an_experiment_takes_has_its_line(known):
    page = (ROOT / "docs" / "mechanisms.md").read_text()
    missing = [name for name in known if not re.search(rf"^\| `{re.escape(name)}` \|", page, re.M)]
    assert missing == []


def test_every_variable_is_described():
    missing = variables.MEANINGS.keys() - written_names(ROOT / "docs" / "dataset.md")
    assert missing == set()


def test_a_mechanism_a_workload_a_reduction_and_a_variable_are_one_place_each(tmp_path):
    """In a copy, with nothing but the modules of docs/mechanisms.md and one meaning added."""
    page = ROOT / "docs" / "mechanisms.md"
    for package in ("sweep", "solvers", "workloads"):
        shutil.copytree(ROOT / package, tmp_path / package)
    for module in blocks(page, "python"):
        if module.startswith("# "):
            (tmp_path / module.partition("\n")[0].removeprefix("# ")).write_text(module)
    meanings = tmp_path / "sweep" / "dataset" / "variables.py"
    ours = '    "largest_entry": ("largest entry of the query matrix", "records"),\n'
    meanings.write_text(meanings.read_text().replace("\n}\n", f"\n{ours}}}\n", 1))
    (tmp_path / "mine.yaml").write_text(blocks(page, "yaml")[0] + SINGLE_QUERY_AND_MARGINALS)
    (tmp_path / "cluster.yaml").write_text(ONE_THREAD)

    def command(*arguments):
        ran = subprocess.run(
            [sys.executable, "-m", "sweep.cli", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    listed = command("list")
    assert "cells-and-total" in listed
    assert "even-cells" in listed
    assert "window" in listed
    command("run", "mine.yaml", "--store", "results", "--cluster", "cluster.yaml")
    tree = sweep.open(tmp_path / "results")
    windows, single, marginals = (tree[n].dataset for n in ("window", "average", "marginals"))
    for data in (windows, single, marginals):
        assert (data.status == 2).all()
        assert (data.gap >= 0).all()
    assert windows.mechanism.values.tolist() == [
        "IP",
        "cells-and-total (weight=0.5)",
        "cells-and-total (weight=1.5)",
        "even-cells",
        "SM-II",
        "optimal",
    ]
    assert windows.squared_privacy_cost.sel(mechanism="IP").values == pytest.approx(7.0)
    assert single.squared_privacy_cost.sel(mechanism="optimal").values == pytest.approx(1 / 16)
    assert single.largest_entry.sel(mechanism="optimal").values == pytest.approx(1 / 4)
    assert single.largest_entry.attrs == {
        "long_name": "largest entry of the query matrix",
        "units": "records",
    }
    assert np.isnan(single.largest_entry.sel(mechanism="IP").values)
    even, best = (
        marginals.squared_privacy_cost.sel(mechanism=n) for n in ("even-cells", "optimal")
    )
    assert even.values >= best.values * (1 - 1e-6)


def test_the_mechanism_of_the_documentation_is_the_same_on_marginals_and_on_the_matrix():
    names = {"__name__": "example"}
    (module,) = (m for m in blocks(ROOT / "docs" / "mechanisms.md", "python") if "OnMarginals" in m)
    exec(compile(module, "mechanisms.md", "exec"), names)
    workload = workloads.make("marginals", attributes=2, values=[3, 4])
    problem = as_problem(workload, np.repeat([1.0, 5.0, 2.0], workload.group_sizes))
    dense, small = names["solve"](problem), names["on_marginals"](structure(problem))
    assert small.squared_privacy_cost == pytest.approx(dense.squared_privacy_cost, rel=1e-9)
    assert small.query_variances == pytest.approx(dense.query_variances, rel=1e-9)
