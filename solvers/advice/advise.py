"""The advice on one workload with its targets."""

import itertools
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from solvers.advice.candidates import Solve, Told, Trial, trials
from solvers.advice.prices import CLOSE, DEAREST, elasticities, labels_of, prices, proof, relaxation
from solvers.advice.report import Advice, Answers, Budget, FreeAnswer, Price, Relaxation
from solvers.errors import NotApplicableError, OptionError
from solvers.problem import Problem, as_problem
from solvers.problem.neighbours import Written, as_neighbours
from solvers.solution import Solution
from workloads import Workload

_HIDDEN = {
    "add-remove": "adding or removing one record",
    "replace-one": "replacing one record by another",
}
_LARGEST_FREE = 4000
_MOST_PAIRS = 20_000
_CONFIDENCE = 0.95


def advise(
    workload: Workload | ArrayLike,
    targets: ArrayLike | None = None,
    *,
    delta: float,
    epsilon: float | None = None,
    mechanisms: Sequence[str] | None = None,
    further: Workload | None = None,
    time_limit: float = 30.0,
    neighbours: Written = "add-remove",
    told: Told = lambda said: None,
) -> Advice:
    """What queries with targets cost, what each target costs, and what comes for free.

    Every mechanism on query matrices is run, or the named ones.

    Parameters
    ----------
    workload : Workload or array_like
        The queries, for instance of `workloads.from_queries`.
    targets : array_like, optional
        The variance bound of each query; those that the workload states if not given.
    delta : float
        δ of every ε, between 0 and 1.
    epsilon : float, optional
        A budget to say what it allows.
    mechanisms : sequence of str, optional
        Names of `solvers.all_mechanisms`; all by default.
    further : Workload, optional
        Queries over the same cells that might come free.
    time_limit : float
        Seconds for each mechanism that can be stopped.
    neighbours : str, Mapping or Neighbours
        Which databases must be indistinguishable, as for `solvers.solve`.
    told : callable
        Told what is being done, in a few words.

    Raises
    ------
    OptionError
        If δ, ε, the time limit or the neighbours are none that can be.
    NotApplicableError
        If no Gaussian mechanism meets the targets.
    WorkloadError, TargetsError, UnknownMechanismError
        As `solvers.solve`.
    """
    import solvers

    _check(delta, epsilon, time_limit)
    relation = as_neighbours(neighbours)
    solve = partial(solvers.solve, neighbours=relation)
    problem = as_problem(workload, targets, relation)
    if not problem.workload.listed:
        raise NotApplicableError(
            f"advice on {problem.size}: too many queries to list; solve 'optimal' itself"
        )
    tried = trials(solve, problem, delta, mechanisms, time_limit, told)
    best = _recommended(tried)
    charged, relaxed = _charged(solve, problem, tried, delta, time_limit, told)
    bounds = [t.solution.known_lower_bound for t in tried if t.solution is not None]
    stated = problem.workload.stated
    size = problem.workload.m
    return Advice(
        queries=size,
        cells=problem.workload.d,
        delta=delta,
        neighbours=_HIDDEN[relation.relation] + relation.title.removeprefix(relation.relation),
        candidates=tuple(trial.candidate for trial in tried),
        recommended=best.candidate,
        lower_bound=max((b for b in bounds if b is not None), default=float("nan")),
        answers=Answers(
            labels_of(problem.workload),
            problem.targets,
            _solution(best).query_variances,
            np.full(size, _CONFIDENCE) if stated is None else stated.confidences,
        ),
        prices=charged,
        relaxation=relaxed,
        free=() if further is None else _free(_solution(best), problem, further),
        budget=None
        if epsilon is None
        else Budget(epsilon, _solution(best).at_budget(epsilon, delta).variance_ratio),
    )


def _check(delta: float, epsilon: float | None, time_limit: float) -> None:
    if not 0 < delta < 1:
        raise OptionError(f"delta is {delta!r}; expected a number between 0 and 1, such as 1e-6")
    if epsilon is not None and not 0 < epsilon < np.inf:
        raise OptionError(f"epsilon is {epsilon!r}; expected a positive finite number")
    if not time_limit > 0:
        raise OptionError(f"time limit is {time_limit!r}; expected a positive number of seconds")


def _recommended(tried: Sequence[Trial]) -> Trial:
    gaussian = [t for t in tried if t.solution is not None and t.solution.noise.gaussian]
    if not gaussian:
        reasons = "; ".join(t.candidate.reason for t in tried if t.candidate.reason)
        raise NotApplicableError(
            "no mechanism with Gaussian noise gave an answer: "
            f"{reasons or 'none was tried; name one that has it, such as optimal'}"
        )
    least = min(trial.candidate.squared_privacy_cost for trial in gaussian)
    equal = (t for t in gaussian if t.candidate.squared_privacy_cost <= (1 + CLOSE) * least)
    return min(equal, key=lambda trial: trial.candidate.seconds)


def _solution(trial: Trial) -> Solution:
    assert trial.solution is not None
    return trial.solution


def _charged(
    solve: Solve,
    problem: Problem,
    tried: Sequence[Trial],
    delta: float,
    time_limit: float,
    told: Told,
) -> tuple[tuple[Price, ...], Relaxation | None]:
    """The price of every target, and what relaxing the dearest saves."""
    proven = proof(tried)
    if proven is None or proven.weights is None or len(proven.weights.q) != problem.workload.m:
        return (), None
    charged = prices(problem.workload, problem.targets, elasticities(proven.weights))
    told(f"{proven.mechanism}, the dearest targets relaxed")
    dearest = [price for price in charged[:DEAREST] if not price.free]
    return charged, relaxation(solve, problem, proven, dearest, delta, time_limit)


def _free(solution: Solution, problem: Problem, further: Workload) -> tuple[FreeAnswer, ...]:
    """Further queries that cost nothing and were not asked, the most accurate first."""
    d, relation = problem.workload.d, problem.neighbours
    if d > _LARGEST_FREE or not (relation.add_remove or relation.count(d) <= _MOST_PAIRS):
        return ()
    new = np.flatnonzero(~_already(further, problem.workload))
    if not new.size:
        return ()
    extra = solution.free_queries(further.dense[new])
    names = labels_of(further)
    return tuple(
        FreeAnswer(names[new[at]], float(np.sqrt(extra.variances[at])), not extra.free[at])
        for at in np.argsort(extra.variances, kind="stable")
        if np.isfinite(extra.variances[at])
    )


def _already(further: Workload, workload: Workload) -> NDArray[np.bool_]:
    """Which of some queries are among those of a workload."""
    asked = set(_rows(workload))
    return np.array([row in asked for row in _rows(further)], dtype=np.bool_)


def _rows(workload: Workload) -> Iterator[tuple[bytes, bytes]]:
    """The queries in a form in which equal queries compare equal."""
    matrix = sp.csr_array(workload.matrix, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    for first, end in itertools.pairwise(matrix.indptr):
        yield matrix.indices[first:end].astype(np.int64).tobytes(), matrix.data[first:end].tobytes()
