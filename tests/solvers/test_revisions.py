"""A mechanism or workload family whose answers change has a new revision."""

import json
import sys

import answers
import pytest
from programs import ran

STORED = json.loads(answers.STORED.read_text())
NUMERICS = STORED.pop("numerics")
PANEL = answers.panel()


def tolerance(name):
    """1e-9; published iterations that stop early end up to 12 % apart on another processor."""
    return 0.2 if name in answers.ITERATIVE and answers.numerics() != NUMERICS else 1e-9


def moved(stored, found, within=1e-9):
    """The labels of all numbers that differ from the stored ones."""
    if not isinstance(stored, dict) or not isinstance(found, dict):
        if isinstance(stored, float | int) and isinstance(found, float | int):
            stored = pytest.approx(stored, rel=within, abs=within)
        return [] if found == stored else [f": {stored} became {found}"]
    names = sorted({*stored, *found})
    pairs = ((name, stored.get(name, "nothing"), found.get(name, "nothing")) for name in names)
    return [
        f" {name}{rest}" for name, before, after in pairs for rest in moved(before, after, within)
    ]


def test_the_panel_has_everything_that_answers():
    assert {*PANEL} == {*STORED}


def test_storing_the_answers_of_something_unknown_is_refused():
    ended = ran(sys.executable, answers.__file__, "nonsense")
    assert ended.returncode == 2
    assert "not on the panel: nonsense; expected the dual's optimiser, AM, CA" in ended.stderr


@pytest.mark.parametrize("name", sorted(PANEL))
def test_answers_are_those_of_the_revision(name):
    revision, compute = PANEL[name]
    store = f"store its answers: 'python tests/solvers/answers.py {name!r}'"
    assert name in STORED, store
    stored = STORED[name]
    assert revision == stored["revision"], f"{name} has revision {revision}; {store}"
    changes = moved(stored["answers"], compute(), tolerance(name))
    assert not changes, f"raise the revision of {name} and {store}:\n" + "\n".join(changes)


def test_a_number_that_moves_is_found():
    before = {"prefix": {"cost": 2.0, "kept": 1.0}, "cycle": "NotApplicableError"}
    assert moved(before, {"prefix": {"cost": 2.0 + 1e-12}, "cycle": "NotApplicableError"}) == [
        " prefix kept: 1.0 became nothing"
    ]
    after = {"prefix": {"cost": 2.0 + 1e-7, "kept": 1.0}, "cycle": {"cost": 1.0}}
    assert moved(before, after) == [
        " cycle: NotApplicableError became {'cost': 1.0}",
        " prefix cost: 2.0 ± 2.0e-09 became 2.0000001",
    ]
