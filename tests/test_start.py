"""A foreign `sweep`, `solvers` or `workloads` is reported by name, with what to do about it."""

import os
import re
import sys
from pathlib import Path

import programs
import pytest

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


IMPORTED = """
import sys
from sweep.cli import app
try:
    app(sys.argv[2:])
except SystemExit as end:
    print(end.code, *sorted(set(sys.modules) & set(sys.argv[1].split())), file=sys.stderr)
"""
SLOW = "scipy.linalg scipy.sparse pandas xarray zarr dask distributed"
"""Modules that take longer to import than a quick command may take."""


def test_quick_commands_import_nothing_slow(tmp_path):
    store = tmp_path / "store"
    create(store, (ROOT / "sweep/experiments/vldb-table4.yaml").read_text())
    for words in (["list"], ["--help"], ["status", str(store)]):
        ran = python("-c", IMPORTED, SLOW, *words, cwd=ROOT)
        assert ran.stderr in {"0\n", "1\n"}, words


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
