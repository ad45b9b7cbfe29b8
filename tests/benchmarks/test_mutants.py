"""Mutations: every kind is found where it is, and no text that no code is; a copy is judged."""

from dataclasses import replace

import pytest

from benchmarks.mutants.__main__ import PROJECT, Verdict, judged, report, sample
from benchmarks.mutants.copies import Copy
from benchmarks.mutants.mutations import mutations
from benchmarks.mutants.reach import Reach, draw


def mutants(source):
    return {found.apply(source) for found in mutations(source)}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a < b", {"a <= b"}),
        ("a is not None", {"a is None"}),
        ("a not in b", {"a in b"}),
        ("a <= b < c", {"a < b < c", "a <= b <= c"}),
        ("(a) + (b)", {"(a) - (b)"}),
        ("a ** b @ c", {"a * b @ c"}),
        ("a += b", {"a -= b"}),
        ("Δ and b and c", {"Δ or b and c", "Δ and b or c"}),
        ("x = 3, 1e-3", {"x = 4, 1e-3", "x = 3, 1.001"}),
        ("-a", {"a"}),
        ("not(a)", {"(a)"}),
        ("x = a if b else c", {"x = a if (not (b)) else c"}),
        ("[a for a in b if a]", {"[a for a in b if (not (a))]"}),
        ("while a: pass", {"while (not (a)): pass"}),
        ("def f(a: int | None = None) -> 'x': ...", set()),
        ("f'{a + 1}'", set()),
        ("'''a < b'''  # 1 + 1", set()),
        ("x = True", set()),
    ],
)
def test_every_mistake_that_a_line_can_have(source, expected):
    assert mutants(source) == expected


def test_a_mutation_knows_its_line_and_its_outermost_function():
    source = "class A:\n    def f(self):\n        def g():\n            return 1\n\nB = 2\n"
    assert [(m.line, m.function) for m in mutations(source)] == [(4, "A.f"), (6, "")]


def test_mutants_of_the_packages_compile_and_a_sample_is_that_of_its_seed():
    drawn = sample(PROJECT, 40, seed=3)
    for path, mutation in drawn:
        source = (PROJECT / path).read_text(encoding="utf-8")
        broken = mutation.apply(source)
        assert broken != source
        compile(broken, path, "exec")
    assert drawn[:20] == sample(PROJECT, 20, seed=3)


PACKAGE = """def large(x):
    return x + x


def unused():
    return 1
"""
TEST = "import solvers\n\n\ndef test_it():\n    assert solvers.large(12) == 24\n"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy of a project of one module, and which tests reach what."""
    root = tmp_path_factory.mktemp("project")
    folders = root / "solvers", root / "tests", root / "benchmarks" / "mutants"
    for folder in folders:
        folder.mkdir(parents=True)
    (folders[0] / "__init__.py").write_text(PACKAGE)
    (folders[1] / "test_it.py").write_text(TEST)
    for path in (PROJECT / "benchmarks" / "mutants").glob("*.py"):
        (folders[2] / path.name).write_text(path.read_text(encoding="utf-8"))
    copy = Copy.of(root, tmp_path_factory.mktemp("copy") / "project")
    return copy, draw(copy, tmp_path_factory.mktemp("reach"), print)


@pytest.mark.slow
def test_a_copy_is_judged_by_the_tests_that_reach_the_mistake(project):
    copy, reach = project
    found = {m.kind: m for m in mutations(PACKAGE) if m.text != "10"}
    verdicts = {
        kind: judged(copy, 1, "solvers/__init__.py", found[kind], reach).verdict
        for kind in ("arithmetic", "number")
    }
    assert verdicts == {"arithmetic": "killed", "number": "unreached"}
    assert (copy.root / "solvers" / "__init__.py").read_text() == PACKAGE


@pytest.mark.slow
def test_tests_that_hang_are_ended(project):
    copy, _ = project
    assert copy.test(["tests/test_it.py"], limit=0.01).code is None


@pytest.mark.slow
def test_calls_are_known_by_test(project):
    _, reach = project
    assert ("tests/test_it.py::test_it", "solvers/__init__.py", "large") in reach.calls
    assert list(reach.seconds) == ["tests/test_it.py::test_it"]


def test_what_a_fixture_of_several_tests_calls_is_reached_by_the_whole_file():
    calls = frozenset({("tests/a.py", "solvers/x.py", "f"), ("tests/b.py::t", "solvers/x.py", "g")})
    reach = Reach(calls, {"tests/a.py::s": 2.0, "tests/a.py::r": 1.0, "tests/b.py::t": 3.0})
    (of_f,) = mutations("def f():\n    return 1\n")
    (of_module,) = mutations("A = 1\n")
    assert reach.tests("solvers/x.py", of_f) == ["tests/a.py::r", "tests/a.py::s"]
    assert len(reach.tests("solvers/x.py", of_module)) == 3
    assert reach.tests("solvers/y.py", of_f) == []


def test_the_report_names_survivors_and_the_score():
    alive = Verdict(1, "solvers/x.py", 7, "number", "-a = 1\n+a = 2", "survived", 12, 12, 3.0, "")
    hurried = replace(alive, line=8, reaching=90)
    dead = replace(alive, line=9, verdict="hung")
    assert report([alive, hurried, dead]).splitlines() == [
        "solvers/x.py:7 number survived, 12 tests",
        "-a = 1",
        "+a = 2",
        "",
        "solvers/x.py:8 number survived, 12 of 90 tests",
        "-a = 1",
        "+a = 2",
        "",
        "1 of 3 mutants were noticed",
    ]
