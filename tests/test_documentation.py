"""The documentation's examples run, its commands exist, and it omits no name."""

import ast
import os
import re
import shlex
import shutil
import sys
from itertools import takewhile
from pathlib import Path

import numpy as np
import pytest
import typer
from pages import blocks
from programs import installed, ran
from typer.testing import CliRunner

import solvers
import sweep
import workloads
from solvers import mechanism
from solvers.forms.orbits import SingleOrbit
from solvers.problem import as_problem
from sweep.cli import app
from sweep.cluster import specification
from sweep.experiment import variables
from sweep.experiment.files import list_experiments
from sweep.grid.expansion import expand
from workloads import family

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
OWN_MECHANISM = DOCS / "how-to" / "mechanism.md"
OWN_WORKLOAD = DOCS / "how-to" / "workload.md"
SITE = sorted(
    path
    for path in DOCS.rglob("*.md")
    if not {"_build", "generated"} & set(path.relative_to(DOCS).parts)
)
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *SITE]
VENV = {".venv/bin/python", ".venv/bin/ruff"}
OTHER_PROGRAMS = {"python3", "dask", "openssl", "cp", "chmod", "export", *VENV}
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


def sessions(page):
    """The input after each ``$``, in order, with the lines that the page shows below it."""
    for block in blocks(page, "console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            typed, *shown = part.splitlines()
            yield typed, [line for line in shown if line]


def commands_not_run(page):
    """The lines of blocks without ``$``."""
    for block in blocks(page, "console"):
        if not re.search(r"^\$ ", block, re.MULTILINE):
            yield from (line for line in block.splitlines() if line)


def write_files(page):
    """Write the files that the page shows under a first line such as ``# mine.yaml``."""
    for text in blocks(page, "yaml"):
        if found := re.match(r"# (\S+\.yaml)\n", text):
            Path(found[1]).write_text(text)


def messages():
    """Every string in the code, with … in place of each value that is filled in."""
    packages = (ROOT / name for name in ("sweep", "solvers", "workloads"))
    modules = (path for package in packages for path in package.rglob("*.py"))
    for path in (ROOT / "fitness_sweep.py", *modules):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                yield "".join(
                    part.value if isinstance(part, ast.Constant) else "…" for part in node.values
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def stem(page):
    return page.stem


def written_names(page):
    """The texts between backquotes."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return set(re.findall(r"`([^`\n]+)`", prose))


@pytest.fixture
def one_thread(tmp_path, monkeypatch):
    """Its own folder, with a cluster inside this process."""
    written = tmp_path / "one-thread.yaml"
    written.write_text(ONE_THREAD)
    monkeypatch.setattr(specification, "LOCAL", specification.load(written))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=stem)
def test_python_examples_run(page, one_thread):
    names = {"__name__": "example"}
    for example in blocks(page, "python"):
        exec(compile(example, str(page), "exec"), names)


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if any(sessions(p))], ids=stem)
def test_commands_run_in_their_order_and_print_what_the_page_shows(page, one_thread):
    write_files(page)
    code = 0
    typed = list(sessions(page))
    for (line, shown), (following, _) in zip(typed, [*typed[1:], ("", [])], strict=True):
        if line == "echo $?":
            assert shown == [str(code)]
            continue
        program, *arguments = takewhile(lambda word: word != ">", shlex.split(line))
        assert program == "sweep", line
        result = CliRunner().invoke(app, arguments)
        code = result.exit_code
        assert code == 0 or following == "echo $?", f"{line}: {result.output}"
        printed = " ".join(result.output.split())
        for text in shown:
            assert " ".join(text.split()) in printed, f"{line}: {result.output}"


@pytest.mark.parametrize("page", PAGES, ids=stem)
def test_commands_that_are_only_shown_could_be_run(page):
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    group = typer.main.get_command(app)
    for line in commands_not_run(page):
        program, *arguments = shlex.split(line, comments=True)
        if program == "make":
            assert set(arguments) <= set(targets), line
        elif Path(program).name == "sweep":
            command, *rest = arguments
            group.commands[command].make_context(command, rest)
        else:
            assert program in OTHER_PROGRAMS, line


def test_every_file_of_an_experiment_or_a_cluster_is_valid(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for key in ("ca.pem", "sweep.pem", "sweep-key.pem"):
        Path(key).touch()
    pages = (page for page in PAGES if page.name != "workload.md")
    for number, text in enumerate(text for page in pages for text in blocks(page, "yaml")):
        written = Path(f"{number}.yaml")
        written.write_text(text)
        if re.search("^blocks:", text, re.MULTILINE):
            assert expand(sweep.load_experiment(str(written)))
        elif re.search("^module:", text, re.MULTILINE):
            assert specification.load(written).module


def test_what_is_called_a_command_or_an_experiment_is_one():
    ours = {command.name or command.callback.__name__ for command in app.registered_commands}
    named = {name for page in PAGES for name in written_names(page)}
    called = {match[1] for name in named if (match := re.match(r"sweep ([a-z]+)", name))}
    assert called <= ours
    kinds = r"(vldb|arxiv|kdd16|post13|fisher)-[a-z0-9]+|budgets|census|trivial"
    shipped = list_experiments().keys() | solvers.all_mechanisms().keys()
    assert {name for name in named if re.fullmatch(kinds, name)} <= shipped


def test_messages_that_troubleshooting_explains_are_those_of_the_code():
    page = (DOCS / "troubleshooting.md").read_text()
    quoted = re.findall(r"^### `(.*)`$", page, re.MULTILINE)
    assert quoted
    texts = list(messages())
    for message in quoted:
        pieces = ".*?".join(re.escape(piece.strip()) for piece in message.split("…"))
        assert any(re.search(pieces, text, re.DOTALL) for text in texts), message


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path):
    """Links, anchors, references and the lists of pages are checked; the notebooks run."""
    options = ("-W", "--keep-going", "-q", "-b", "html")
    built = ran(sys.executable, "-m", "sphinx", *options, DOCS, tmp_path)
    assert built.returncode == 0, built.stderr
    assert "fitness" in (tmp_path / "index.html").read_text()
    commands = (tmp_path / "reference" / "command-line.html").read_text()
    assert "sweep rerun" in commands
    assert "--set" in commands
    assert not set("“”‘’–") & set(commands), "smart quotes: these commands cannot be copied"
    of_solvers = (tmp_path / "reference" / "solvers.html").read_text()
    assert "squared_privacy_cost" in of_solvers
    assert 'href="../neighbours.html"><span' in of_solvers, "pages that docstrings name are links"
    assert "<math" in (tmp_path / "concepts.html").read_text(), "formulas are shown, not quoted"
    for name in (path.stem for path in (DOCS / "notebooks").glob("*.ipynb")):
        page = (tmp_path / "generated" / "notebooks" / f"{name}.html").read_text()
        assert 'class="output' in page
        assert "_images/" in page
        assert "of the work" in page, "the run shows progress"


@pytest.mark.parametrize(
    ("known", "page"),
    [
        (solvers.all_mechanisms().keys() - mechanism.plugged().entries.keys(), "mechanisms.md"),
        (workloads.families().keys() - family.plugged().entries.keys(), "mechanisms.md"),
        (workloads.targets.RULES.keys(), "mechanisms.md"),
        (variables.MEANINGS.keys(), "dataset.md"),
    ],
    ids=["mechanisms", "workloads", "targets", "variables"],
)
def test_every_name_is_on_its_page(known, page):
    assert known - written_names(DOCS / page) == set()


@pytest.mark.slow
def test_the_plug_ins_of_whoever_runs_the_tests_need_no_page(tmp_path):
    points = "[fitness_sweep.mechanisms]\nof-mine = mine:add\n"
    installed(tmp_path, "mine", **{"entry_points.txt": points})
    (tmp_path / "mine.py").write_text("def add(problem):\n    return problem\n")
    test = f"{__file__}::{test_every_name_is_on_its_page.__name__}"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ended = ran(sys.executable, "-m", "pytest", "-q", test, cwd=ROOT, env=environment)
    assert "4 passed" in ended.stdout, ended.stdout


@pytest.mark.slow
def test_a_mechanism_a_workload_a_reduction_and_a_variable_are_one_place_each(tmp_path):
    """In a copy with the modules of two pages, a line in a list, and the meaning of a variable."""
    for package in ("sweep", "solvers", "workloads"):
        shutil.copytree(ROOT / package, tmp_path / package)
    for module in blocks(OWN_MECHANISM, "python") + blocks(OWN_WORKLOAD, "python"):
        if module.startswith("# "):
            (tmp_path / module.partition("\n")[0].removeprefix("# ")).write_text(module)
    solving = tmp_path / "solvers" / "forms" / "solving.py"
    text = solving.read_text().replace("    Product,\n", "    SingleQuery,\n    Product,\n")
    solving.write_text("from solvers.forms.single_query import SingleQuery\n" + text)
    variables_file = tmp_path / "sweep" / "experiment" / "variables.py"
    meanings, units, rest = variables_file.read_text().split("\n}\n", 2)
    meanings += '\n    "largest_entry": "largest entry of the query matrix",'
    units += '\n    "largest_entry": "records",'
    variables_file.write_text("\n}\n".join([meanings, units, rest]))
    named = blocks(OWN_WORKLOAD, "yaml")[0]
    (tmp_path / "mine.yaml").write_text(named + SINGLE_QUERY_AND_MARGINALS)
    (tmp_path / "cluster.yaml").write_text(ONE_THREAD)

    def command(*arguments):
        ended = ran(sys.executable, "-m", "sweep.cli", *arguments, cwd=tmp_path)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    assert {"cells-and-total", "even-cells", "window"} <= set(command("list").split())
    command("run", "mine.yaml", "--store", "results", "--cluster", "cluster.yaml")
    tree = sweep.open(tmp_path / "results")
    windows, single, marginals = (tree[n].dataset for n in ("window", "average", "marginals"))
    for data in (windows, single, marginals):
        assert (data.status == 2).all()
        assert (data.gap >= 0).all()
    own = ["cells-and-total (weight=0.5)", "cells-and-total (weight=1.5)", "even-cells"]
    assert windows.mechanism.values.tolist() == ["IP", *own, "SM-II", "optimal"]
    assert windows.squared_privacy_cost.sel(mechanism="IP").values == pytest.approx(7.0)
    assert single.squared_privacy_cost.sel(mechanism="optimal").values == pytest.approx(1 / 16)
    assert single.largest_entry.sel(mechanism="optimal").values == pytest.approx(1 / 4)
    meaning = {"long_name": "largest entry of the query matrix", "units": "records"}
    assert single.largest_entry.attrs == meaning
    assert np.isnan(single.largest_entry.sel(mechanism="IP").values)
    costs = marginals.squared_privacy_cost
    assert costs.sel(mechanism="even-cells") >= costs.sel(mechanism="optimal") * (1 - 1e-6)


def test_the_mechanism_of_the_documentation_is_the_same_on_marginals_and_on_the_matrix():
    names = {"__name__": "example"}
    (module,) = (m for m in blocks(OWN_MECHANISM, "python") if "def on_orbits" in m)
    exec(compile(module, "mechanism.md", "exec"), names)
    workload = workloads.make("marginals", attributes=2, values=[3, 4])
    problem = as_problem(workload, np.repeat([1.0, 5.0, 2.0], workload.group_sizes))
    even = names["EvenCells"]()
    dense, small = even.on_matrix(problem), even.on_orbits(SingleOrbit.of(problem))
    assert small.squared_privacy_cost == pytest.approx(dense.squared_privacy_cost, rel=1e-9)
    assert small.query_variances == pytest.approx(dense.query_variances, rel=1e-9)
