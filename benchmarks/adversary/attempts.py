"""A problem given to every mechanism: what was solved, what was refused, what went wrong."""

import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
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


@dataclass
class Examined:
    """The results for one problem.

    Attributes
    ----------
    measured : list of Measured
        Every number.
    solved : int
        Number of solves that gave an answer.
    """

    measured: list[Measured] = field(default_factory=list)
    solved: int = 0


def examine(case: Case) -> Examined:
    """Solve a problem in every way and check all answers."""
    examined = Examined()
    solved: dict[str, tuple[Solution, Mapping[str, Any]]] = {}
    for name, mechanism in solvers.all_mechanisms().items():
        if "matrix" not in mechanism.workload_kinds or mechanism.runs_code:
            continue
        options = problems.options(case.seed, mechanism, case)
        if options is not None:
            found = _attempt(examined, name, case.workload, case.targets, options)
            if found is not None:
                solved[name] = found, options
                _check(examined, name, partial(checks.of_solution, case, found, options))
    _check(examined, "all", lambda: checks.of_all(case, solved))
    _check(examined, "optimal", lambda: _compared(examined, case))
    for name, (found, options) in solved.items():
        if name == "geometric":
            moved = np.eye(1) if options.get("on") == "data" else case.matrix
            of = checks.written(name, options)
            _check(examined, name, partial(pure.of_pure, case, found, moved, of))
    _replaced(examined, case)
    return examined


def _replaced(examined: Examined, case: Case) -> None:
    """The same problem where one record is replaced."""
    neighbours = relations.relation(case)
    if neighbours is None:
        return
    tried = {
        checks.written(name, options): _attempt(
            examined, name, case.workload, case.targets, options, neighbours
        )
        for name, options in relations.solves(case)
    }
    found = {of: solution for of, solution in tried.items() if solution is not None}
    moves = relations.differences(neighbours, case.workload.d)
    _check(examined, "replace-one", lambda: relations.of_replaced(case, moves, found))
    for of, solution in found.items():
        if solution.mechanism == "geometric":
            moved, said = case.matrix @ moves, f"{of} under {solution.neighbours}"
            _check(examined, of, partial(pure.of_pure, case, solution, moved, said))


def _attempt(
    examined: Examined,
    name: str,
    workload: Workload,
    targets: Array,
    options: Mapping[str, Any],
    neighbours: Any = "add-remove",
) -> Solution | None:
    """The solution; None where it was refused. Whatever else happens is a finding."""
    of = checks.written(name, options)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ResourceWarning)  # of garbage, which may be anybody's
        try:
            found = solvers.solve(name, workload, targets, neighbours=neighbours, **options)
        except (SolverError, WorkloadError, workloads.TargetsError):
            return None
        except Exception:
            examined.measured.append(Measured("raw errors", 1, 0, f"{of}\n{_last_lines()}"))
            return None
        finally:
            examined.measured += [
                Measured("warnings", 1, 0, f"{of}: {w.filename}:{w.lineno} {w.message}")
                for w in warned
            ]
    examined.solved += 1
    return found


def _check(examined: Examined, name: str, check: Callable[[], Iterator[Measured]]) -> None:
    """Add what a check measures; a check that breaks down is a finding itself."""
    try:
        examined.measured += check()
    except Exception:
        examined.measured.append(Measured("broken answers", 1, 0, f"{name}\n{_last_lines()}"))


def _last_lines() -> str:
    return "".join(traceback.format_exc().splitlines(keepends=True)[-6:])


def _compared(examined: Examined, case: Case) -> Iterator[Measured]:
    """The optimum of the same problem in other forms, and by another solver."""
    found = _attempt(examined, "optimal", case.workload, case.targets, {})
    if found is None:
        return
    rng = np.random.default_rng([case.seed, 1])
    *every, written_out = variants(case, rng)
    chosen = [every[at] for at in rng.permutation(len(every))[:_VARIANTS]]
    structured = not isinstance(case.workload.operator, Explicit)
    for title, matrix, targets, factor in [*chosen, written_out] if structured else chosen:
        moved = _attempt(examined, "optimal", workloads.from_matrix(matrix), targets, {})
        if moved is not None:
            yield checks.brackets(title, found, moved, factor, "optimal()")
    if case.small and case.well_scaled:
        yield from checks.against_clarabel(case, found)


def variants(case: Case, rng: np.random.Generator) -> list[tuple[str, Array, Array, float]]:
    """The problem reordered, in other units, and without its structure.

    Each has a title, queries, targets, and the factor by which Δ² changes.
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
