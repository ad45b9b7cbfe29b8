"""Imports run one way: between the packages, and between the rooms of `sweep`."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("workloads", "solvers", "sweep")
FIRST_ROOMS = ("experiment", "store", "grid", "state", "plan", "worker", "dataset")
ROOMS = (*FIRST_ROOMS, "cluster", "runner", "scorecard", "report", "cli")
"""Each room imports only from earlier ones; `sweep.errors` and `sweep.events` from none."""


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a file."""
    return tuple(ast.walk(ast.parse(path.read_text())))


def imports(statements: Iterable[ast.AST]) -> Iterator[str]:
    """The imports of these statements themselves."""
    for node in statements:
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{name.name}" for name in node.names)


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_import_those_below(package):
    above = PACKAGES[PACKAGES.index(package) + 1 :]
    foreign = {"dask", "distributed", "xarray", "zarr"} if package != "sweep" else set()
    wrong = [
        (path.name, name)
        for path in (ROOT / package).rglob("*.py")
        for name in imports(nodes(path))
        if name.partition(".")[0] in {*above, *foreign}
    ]
    assert wrong == []


def test_what_is_slow_to_import_is_imported_by_the_functions_that_need_it():
    """These parts of SciPy would nearly double a worker's initial memory."""
    wrong = [
        (path.name, name)
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for name in imports(ast.parse(path.read_text()).body)
        if name.startswith(("scipy.stats", "scipy.signal"))
    ]
    assert wrong == []


@pytest.mark.parametrize("room", [*ROOMS, "errors.py", "events.py"])
def test_rooms_import_those_before(room):
    before = ROOMS[: ROOMS.index(room)] if room in ROOMS else ()
    allowed = {*before, room, "errors", "events", "experiments"}
    place = ROOT / "sweep" / room
    wrong = [
        (path.name, name)
        for path in (place.rglob("*.py") if place.is_dir() else [place])
        for name in imports(nodes(path))
        if f"{name}.".startswith("sweep.") and [*name.split("."), ""][1] not in allowed
    ]
    assert wrong == []


def test_no_test_module_imports_another():
    """What tests share is in modules of their own, so that each test module runs alone."""
    wrong = [
        (path.name, name)
        for path in (ROOT / "tests").rglob("*.py")
        for name in imports(nodes(path))
        if name.startswith("test_")
    ]
    assert wrong == []


def test_every_room_says_what_comes_in_and_what_goes_out():
    rooms = {path.parent.name for path in (ROOT / "sweep").glob("*/__init__.py")}
    assert rooms == {*ROOMS, "experiments"}
    for room in ROOMS:
        text = ast.get_docstring(ast.parse((ROOT / "sweep" / room / "__init__.py").read_text()))
        assert "\nInput: " in text, room
        assert re.search(r"\sOutput: ", text), room


@pytest.mark.parametrize("page", ["architecture.md", "concepts.md"])
def test_the_map_and_the_glossary_name_what_exists(page):
    """These pages name folders, modules and, after a colon, what a module defines."""
    text = (ROOT / "docs" / page).read_text()
    named = re.findall(r"`((?:sweep|solvers|workloads|tests)/[\w/.]+)`(?:: `(\w+)`)?", text)
    assert len(named) > 20
    for path, name in named:
        assert (ROOT / path).exists(), path
        assert not name or any(getattr(node, "name", "") == name for node in nodes(ROOT / path))


def documented(function: ast.FunctionDef) -> set[str]:
    """The names in the section on parameters of a docstring."""
    sections = re.split(r"^(\w+)\n-+\n", ast.get_docstring(function) or "", flags=re.M)
    text = dict(zip(sections[1::2], sections[2::2], strict=True)).get("Parameters", "")
    listed = re.findall(r"^\*{0,2}(\w+(?:, \w+)*)(?: :.*)?$", text, flags=re.M)
    return {name for names in listed for name in names.split(", ")}


@pytest.mark.parametrize("package", PACKAGES)
def test_documented_parameters_exist(package):
    wrong = []
    for path in (ROOT / package).rglob("*.py"):
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef):
                arguments = {
                    found.arg for found in ast.walk(node.args) if isinstance(found, ast.arg)
                }
                wrong += [(path.name, node.name, name) for name in documented(node) - arguments]
    assert wrong == []
