"""A foreign `sweep`, `solvers` or `workloads` is reported by name, with what to do about it."""

import os
import re
import sys
from pathlib import Path

import numpy as np
import programs
import pytest
import scipy

import fitness_sweep
from sweep.store.folder import create

ROOT = Path(__file__).parent.parent


def python(*arguments, cwd, path=()):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, path), str(ROOT)])}
    return programs.ran(sys.executable, *arguments, cwd=cwd, env=environment)


def distribution(folder, package):
    """Another project that installs a package of this name."""
    (folder / package).mkdir()
    (folder / package / "__init__.py").write_text("")
    record = f"{package}/__init__.py,,\n"
    programs.installed(folder, "other-things", RECORD=record, **{"top_level.txt": f"{package}\n"})


INTERRUPTED = """
import signal, sys
import fitness_sweep

class WhileItImports:
    def find_spec(self, name, *_):
        if name == "sweep.cli":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, WhileItImports())
signal.signal(signal.SIGINT, signal.default_int_handler)
fitness_sweep.main()
"""


def test_a_command_that_is_interrupted_while_it_imports_says_so():
    ran = python("-c", INTERRUPTED, cwd=ROOT)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "interrupted\n")


SLOW = "scipy.linalg scipy.sparse pandas xarray zarr dask distributed"
"""Modules that take longer to import than a quick command may take."""
WATCHED = """
import sys, traceback

class Watch:
    def find_spec(self, name, *_):
        if name in sys.argv[1].split():
            *_, caller = (f for f in traceback.extract_stack() if f.filename.startswith("/") and
                          "site-packages" not in f.filename and "importlib" not in f.filename)
            print(f"{name} at {caller.filename}, line {caller.lineno}", file=sys.stderr)

sys.meta_path.insert(0, Watch())
"""
COMMANDS = """
from sweep.cli import app
app(sys.argv[2:])
"""


def slow_imports(program, *words, cwd):
    """The lines on which a program imports what is slow to import."""
    return python("-c", WATCHED + program, SLOW, *words, cwd=cwd).stderr


def test_quick_commands_import_nothing_slow(tmp_path):
    store = tmp_path / "store"
    create(store, (ROOT / "sweep/experiments/vldb-table4.yaml").read_text())
    for words in (["list"], ["--help"], ["status", str(store)]):
        found = slow_imports(COMMANDS, *words, cwd=ROOT)
        remedy = "import it in the function that needs it"
        assert not found, f"'sweep {words[0]}' imports {found}; {remedy}"


def test_a_slow_import_is_found_with_its_file_and_line(tmp_path):
    (tmp_path / "mine.py").write_text("import json\nimport scipy.linalg\n")
    found = slow_imports("import mine", cwd=tmp_path)
    assert f"scipy.linalg at {tmp_path / 'mine.py'}, line 2\n" in found


def test_a_module_of_the_users_folder_is_named(tmp_path):
    mine = tmp_path / "solvers.py"
    mine.write_text("")
    ran = python("-m", "fitness_sweep", "list", cwd=tmp_path)
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
    assert f"{str(mine)!r} is imported as 'solvers' in place of this project's" in ran.stderr
    assert "rename it" in ran.stderr


@pytest.mark.parametrize("package", fitness_sweep.PACKAGES)
def test_a_package_of_another_distribution_is_named(tmp_path, package):
    distribution(tmp_path, package)
    ran = python("-m", "fitness_sweep", "list", cwd=ROOT.parent, path=[tmp_path])
    assert ran.returncode == 2
    assert str(tmp_path / package / "__init__.py") in ran.stderr
    assert "belongs to distribution 'other-things'; uninstall it" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_in_python_it_is_an_import_error_in_a_sentence(tmp_path):
    (tmp_path / "workloads.py").write_text("")
    ran = python("-c", "import workloads, sweep\nsweep.run", cwd=tmp_path)
    last = ran.stderr.splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert str(tmp_path / "workloads.py") in last


def test_a_folder_without_a_package_in_it_takes_no_place(tmp_path):
    (tmp_path / "solvers").mkdir()
    ran = python("-m", "fitness_sweep", "--version", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert re.match(r"fitness-sweep \d", ran.stdout)


NUMBERS_ALONE = """
import numpy as np, solvers, workloads
from solvers.mechanisms.hm import HM

assert {"optimal", "HM", "lp-optimal"} <= solvers.all_mechanisms().keys()
assert {"prefix", "census"} <= workloads.families().keys()
print(solvers.solve("optimal", np.tri(2)).squared_privacy_cost)
print(solvers.solve(HM(branching=2), np.tri(2)).squared_privacy_cost)
print(workloads.from_queries({"age": ["0..1"], "variance": [1.0]}, {"age": "0..3"}).m)
try:
    workloads.from_queries({"age": ["0..1"], "variance": [1.0]}, "domain.yaml")
except workloads.WorkloadError as error:
    print(error)
"""


def test_solvers_need_numpy_and_scipy_and_nothing_else(tmp_path):
    """In a Python that finds no other installed package."""
    for package in (np, scipy):
        folder = Path(package.__file__).parent
        for part in (folder, folder.with_name(f"{folder.name}.libs")):
            if part.exists():
                (tmp_path / part.name).symlink_to(part)
    (tmp_path / "domain.yaml").write_text("age: 0..3\n")
    ran = python("-S", "-c", NUMBERS_ALONE, cwd=tmp_path, path=[tmp_path])
    assert ran.returncode == 0, ran.stderr
    optimum, tree, queries, refused = ran.stdout.splitlines()
    assert float(optimum) == pytest.approx(4 / 3)
    assert float(tree) >= 4 / 3
    assert queries == "1"
    assert "the package ruamel.yaml, which reads it, is not installed" in refused
