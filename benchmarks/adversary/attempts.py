"""Solves a problem with every mechanism, and measures how far each answer is from correct."""

import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import solvers
import workloads
from benchmarks.adversary import checks, problems, pure, relations
from benchmarks.adversary.checks import Measured
from benchmarks.adversary.problems import Array, Case
from solvers import Solution, SolverError
from workloads import Workload, WorkloadError
from workloads.operators import Explicit

_VARIANTS = 2


def examine(case: Case) -> list[Measured]:
    """Solve a problem with every mechanism, and return all measurements of the answers.

    About half of the small problems are also solved under another neighbour relation.
    """
    measured: list[Measured] = []
    drawn = [
        (name, options)
        for name, mechanism in solvers.all_mechanisms().items()
        if "matrix" in mechanism.workload_kinds and not mechanism.runs_code
        if (options := problems.options(case.seed, mechanism, case)) is not None
    ]
    solved = _solve(measured, case, "add-remove", [("optimal", {}), *drawn])
    if "optimal()" in solved:
        _check(measured, "optimal", lambda: _compared(measured, case, solved["optimal()"]))
    neighbours = relations.relation(case)
    if neighbours is not None:
        _solve(measured, case, neighbours, relations.solves(case))
    return measured


def _solve(
    measured: list[Measured],
    case: Case,
    neighbours: Any,
    solves: Sequence[tuple[str, Mapping[str, Any]]],
) -> dict[str, Solution]:
    """Solve a problem under one neighbour relation, and add the checks' numbers to ``measured``.

    Returns the solutions by the call that made each, as a user would write it.
    """
    moves = relations.differences(neighbours, case.workload.d)
    solved: dict[str, Solution] = {}
    if not np.any(case.matrix @ moves):
        return solved
    moved = replace(case, workload=workloads.from_matrix(case.matrix @ moves))
    for name, options in solves:
        found = _attempt(measured, name, case.workload, case.targets, options, neighbours)
        if found is None:
            continue
        of = checks.written(name, options)
        solved[of] = found
        _check(measured, of, partial(checks.of_solution, case, found, options, moved, moves))
        if name == "geometric":
            on = np.eye(1) if options.get("on") == "data" else moved.matrix
            _check(measured, of, partial(pure.of_pure, case, found, on, of))
    _check(measured, "all", lambda: checks.of_all(moved, solved))
    return solved


def _attempt(
    measured: list[Measured],
    name: str,
    workload: Workload,
    targets: Array,
    options: Mapping[str, Any],
    neighbours: Any = "add-remove",
) -> Solution | None:
    """Return a mechanism's solution, or None if the mechanism refused the problem.

    A warning, or an error of any other type, is a finding.
    """
    of = checks.written(name, options)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ResourceWarning)  # on any code's garbage
        try:
            found = solvers.solve(name, workload, targets, neighbours=neighbours, **options)
        except (SolverError, WorkloadError, workloads.TargetsError):
            return None
        except Exception:
            measured.append(Measured("raw errors", 1, 0, f"{of}\n{_last_lines()}"))
            return None
        finally:
            measured += [
                Measured("warnings", 1, 0, f"{of}: {w.filename}:{w.lineno} {w.message}")
                for w in warned
            ]
    return found


def _check(measured: list[Measured], name: str, check: Callable[[], Iterator[Measured]]) -> None:
    """Add the measurements of a check; a check that raises an error is itself a finding."""
    try:
        measured += check()
    except Exception:
        measured.append(Measured("broken answers", 1, 0, f"{name}\n{_last_lines()}"))


def _last_lines() -> str:
    return "".join(traceback.format_exc().splitlines(keepends=True)[-6:])


def _compared(measured: list[Measured], case: Case, found: Solution) -> Iterator[Measured]:
    """Compare a solution with the optima of equivalent problems, which `variants` makes.

    A problem with structure is always compared with its query matrix written out.
    """
    rng = np.random.default_rng([case.seed, 1])
    *every, written_out = variants(case, rng)
    chosen = [every[at] for at in rng.permutation(len(every))[:_VARIANTS]]
    structured = not isinstance(case.workload.operator, Explicit)
    for title, matrix, targets, factor in [*chosen, written_out] if structured else chosen:
        moved = _attempt(measured, "optimal", workloads.from_matrix(matrix), targets, {})
        if moved is not None:
            yield checks.brackets(title, found, moved, factor, "optimal()")


def variants(case: Case, rng: np.random.Generator) -> list[tuple[str, Array, Array, float]]:
    """Return equivalent problems: reordered, in other units, and without structure.

    The items are tuples (title, query matrix, targets, factor by which Δ² changes).
    """
    matrix, targets = case.matrix, case.targets
    rows, columns = rng.permutation(len(matrix)), rng.permutation(matrix.shape[1])
    signs = rng.choice([-1.0, 1.0], matrix.shape[1])
    factor, units = float(10 ** rng.uniform(-3, 3)), 10 ** rng.uniform(-2, 2, len(matrix))
    return [
        ("unlike reordered", (matrix * signs)[rows][:, columns], targets[rows], 1),
        ("unlike W scaled", matrix * factor, targets, factor**2),
        ("unlike targets scaled", matrix, targets * factor, 1 / factor),
        ("unlike queries in own units", matrix * units[:, None], targets * units**2, 1),
        ("unlike written out", matrix, targets, 1),
    ]
