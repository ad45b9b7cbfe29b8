"""Trials of every mechanism on one problem."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from solvers import privacy
from solvers.advice.report import Candidate
from solvers.errors import NotApplicableError, SolverError
from solvers.mechanism import Mechanism, all_mechanisms, find
from solvers.problem import Problem
from solvers.solution import Solution

Told = Callable[[str], None]
"""Is told what is being done, in a few words."""


@dataclass(frozen=True, eq=False)
class Trial:
    """A mechanism that was tried.

    Attributes
    ----------
    solution : Solution, optional
        Its answer, if it has one.
    """

    candidate: Candidate
    solution: Solution | None


_UNKNOWN = "no ε is known at which it meets the targets: its accuracy depends on the data"
Solve = Callable[..., Solution]
"""``solve(mechanism, workload, targets, **options)``, as `solvers.solve`."""


def trials(
    solve: Solve,
    problem: Problem,
    delta: float,
    mechanisms: Sequence[str] | None,
    time_limit: float,
    told: Told,
) -> tuple[Trial, ...]:
    """Every mechanism, or the named ones, tried one after the other; the best first.

    Parameters
    ----------
    delta : float
        δ of every ε.
    mechanisms : sequence of str, optional
        Names; by default all on query matrices.
    time_limit : float
        Seconds for each.
    told : callable
        Told of each before it begins.
    """
    every = (name for name, mechanism in all_mechanisms().items() if not mechanism.runs_code)
    names = every if mechanisms is None else mechanisms
    chosen = [find(name) for name in names if "matrix" in find(name).workload_kinds]
    done = []
    for number, mechanism in enumerate(chosen, 1):
        told(f"{mechanism.name} ({number} of {len(chosen)})")
        done.append(_tried(solve, mechanism, problem, delta, time_limit))
    bound = max((b for trial in done for b in _bounds(trial)), default=float("nan"))
    measured = (_against(trial, bound) for trial in done)
    return tuple(sorted(measured, key=_rank))


def _tried(
    solve: Solve, mechanism: Mechanism, problem: Problem, delta: float, time_limit: float
) -> Trial:
    limited = {"time_limit": time_limit} if "time_limit" in mechanism.options else {}
    blank = Candidate(mechanism.name, mechanism.summary, "ok")
    started = time.perf_counter()
    try:
        solution = solve(mechanism.name, problem.workload, problem.targets, **limited)
    except NotApplicableError as error:
        return Trial(replace(blank, outcome="not applicable", reason=str(error)), None)
    except (SolverError, MemoryError) as error:
        seconds = time.perf_counter() - started
        return Trial(replace(blank, outcome="failed", reason=str(error), seconds=seconds), None)
    epsilon = float(solution.curve.epsilon_at_targets(delta))
    pure = np.inf if solution.noise.gaussian else float(solution.curve.epsilon_at_targets(0.0))
    return Trial(
        replace(
            blank,
            outcome="ok" if solution.converged and not solution.timed_out else "stopped",
            reason=_UNKNOWN if np.isnan(epsilon) else _stopped(solution),
            seconds=time.perf_counter() - started,
            squared_privacy_cost=solution.squared_privacy_cost,
            epsilon=epsilon,
            pure_epsilon=pure,
        ),
        solution,
    )


def _stopped(solution: Solution) -> str:
    if solution.timed_out:
        return "stopped at its time limit; more time may find less"
    return "" if solution.converged else "ended before its own stopping rule; others find less"


def _bounds(trial: Trial) -> Iterator[float]:
    if trial.solution is not None and trial.solution.known_lower_bound is not None:
        yield trial.solution.known_lower_bound


def _against(trial: Trial, bound: float) -> Trial:
    excess = max(trial.candidate.squared_privacy_cost / bound - 1, 0.0)
    known = excess if np.isfinite(trial.candidate.squared_privacy_cost / bound) else float("nan")
    return replace(trial, candidate=replace(trial.candidate, excess=known))


def _rank(trial: Trial) -> tuple[bool, float]:
    return bool(np.isnan(trial.candidate.epsilon)), trial.candidate.epsilon


def epsilon_of(squared_privacy_cost: float, delta: float) -> float:
    """Least ε of a Gaussian mechanism."""
    return float(privacy.epsilon(np.sqrt(squared_privacy_cost), delta))
