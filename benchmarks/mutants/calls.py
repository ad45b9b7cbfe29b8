"""Records which functions of the packages every test calls, in its process and in those it starts.

A pytest plugin, and `listen` for child processes (by a ``sitecustomize``). Each process writes the
first call of every function in every test to its own file, at once, because it may be killed.
"""

import os
import sys
import threading
import time
from pathlib import Path
from types import CodeType, FrameType

import pytest

FOLDER, CONTEXT = "MUTANTS_CALLS", "MUTANTS_CONTEXT"
ROOT = str(Path(__file__).parents[2]) + os.sep
PACKAGES = ("workloads", "solvers", "sweep")

_seen: dict[int, CodeType] = {}
_inside = tuple(ROOT + package + os.sep for package in PACKAGES)


def listen() -> None:
    """Record every function of the packages that is called from now on."""
    folder = Path(os.environ[FOLDER])
    name = f"{os.getpid()}-{time.time_ns()}.calls"
    sink = os.open(folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if id(code) not in _seen:
            _seen[id(code)] = code
            if code.co_filename.startswith(_inside):
                function = code.co_qualname.partition(".<locals>")[0]
                path = code.co_filename.removeprefix(ROOT)
                os.write(sink, f"{os.environ.get(CONTEXT, '')}\t{path}\t{function}\n".encode())

    sys.settrace(note)
    threading.settrace(note)


def _enter(context: str) -> str:
    before = os.environ.get(CONTEXT, "")
    os.environ[CONTEXT] = context
    _seen.clear()
    return before


def pytest_runtest_logstart(nodeid: str) -> None:
    """What follows is called by this test."""
    _enter(nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef, request: pytest.FixtureRequest) -> object:
    """What a fixture of several tests calls is called by all tests of their file."""
    if fixturedef.scope == "function":
        return (yield)
    before = _enter(request.node.nodeid.partition("::")[0])
    try:
        return (yield)
    finally:
        _enter(before)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """How a test went, and how long it took."""
    if report.when == "call":
        line = f"{report.nodeid}\t{report.outcome}\t{report.duration:.3f}\n"
        with Path(os.environ[FOLDER], "tests.times").open("a", encoding="utf-8") as sink:
            sink.write(line)
