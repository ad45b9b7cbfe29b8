"""Advice on queries and targets: what they cost, why, and which further queries are free.

The elasticity of Δ² to target c_i is the dual weight q_i of query i. At the optimum, Δ² is the
maximum of ‖diag(q/c)^½ W diag(p)^½‖_*² over weights p of the cells and q of the queries that each
sum to 1. By the envelope theorem, the derivative of log Δ² with respect to log c_i is -q_i:
relaxing c_i by one per cent saves q_i per cent of Δ².
"""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike

from solvers import privacy
from solvers.errors import NotApplicableError, OptionError, SolverError
from solvers.forms.solving import expected_work, solve
from solvers.mechanism import SECONDS_PER_FLOP, Mechanism, all_mechanisms, find
from solvers.problem import Problem, as_problem
from solvers.problem.neighbours import Written, as_neighbours
from solvers.solution import Solution
from workloads import Workload
from workloads.operators import Array

_LARGEST_FREE = 4000
"""Most domain cells for which free queries are sought, by least squares on a dense strategy.

The strategy of so many cells and as many queries takes 128 MB.
"""

_MOST_PAIRS = 20_000
"""Most pairs of neighbouring cells for which free queries are sought; each is a column there."""

_CONFIDENCE = 0.95
"""Confidence of the intervals if the workload states none, as in official statistics."""

_BEST = "optimal"
"""The mechanism to try first: it has the least Δ², and its weights are the prices."""

_PURE = ("geometric", "laplace", "tight-constraints")
"""Mechanisms that can need less ε than every Gaussian mechanism, since their noise is another."""

_SHARE_OF_BEST, _SHARE_OF_RELAXATION = 0.6, 0.5
"""Largest share of the remaining time for the solve of `_BEST`, and for the relaxation.

What is left then suffices for a second solve of the same length, with relaxed targets.
"""

ALL_TRIED_SECONDS = 10.0
"""Seconds from the start, within which mechanisms are tried that can no longer win.

On thirty rows, `SM-II` and `LRM` alone took 25 s and changed nothing in the advice.
"""

QUICK_SECONDS = 0.5
"""Expected seconds up to which a mechanism is always tried, for comparison, and its time then.

All closed forms are below it on hundreds of cells.
"""

_DEAREST = 5
"""Largest number of targets that are relaxed together: as many as a discussion can hold."""

_FACTOR = 1.1
"""The factor by which the variances of relaxed targets grow: 5 % in a margin of error.

The prediction from the prices is then still within a few per cent of the new solve's saving.
"""

_CLOSE = 1e-4
"""Tolerance of `_BEST`, and the relative difference of Δ² below which the quicker solution wins.

ε is then known to 0.005 %, and prices to 0.0001 (measured on tables of 144 and 320 cells): more
digits than are shown. Under replace-one a tolerance of 1e-6 takes two to three times as long.
"""

_CERTIFIED = 1e-2
"""Largest certified gap at which targets are relaxed, and no other Gaussian mechanism can win.

Another could then save at most 0.5 % of ε.
"""

_UNKNOWN = "no ε is known at which it meets the targets: its accuracy depends on the data"

Outcome = Literal["ok", "stopped", "not applicable", "failed", "not tried"]

FREE_BELOW = 1e-4
"""Elasticity below which the price of a target is negligible, and below the accuracy of prices."""


@dataclass(frozen=True)
class Candidate:
    """The result of one mechanism on the queries and targets.

    Attributes
    ----------
    outcome : {"ok", "stopped", "not applicable", "failed", "not tried"}
        How the solve ended; ``stopped`` means that the solve ended before the mechanism's stopping
        rule was met, but with a solution that meets all targets.
    reason : str
        Why the mechanism does not apply, stopped early, failed or was not tried, or why its ε is
        unknown; otherwise empty.
    seconds : float
        Duration of the solve; NaN if the mechanism does not apply or was not tried.
    squared_privacy_cost : float
        Δ² when the targets are just met; NaN if the noise has no privacy cost.
    epsilon : float
        Least ε at which the mechanism meets all targets, for the δ of the advice; infinite if no ε
        is enough, NaN if there is no solution or the ε is unknown. For noise that is not Gaussian,
        ε is computed from the privacy loss distribution if possible.
    pure_epsilon : float
        ``epsilon`` at δ = 0; infinite for Gaussian noise.
    excess : float
        Δ² divided by the certified lower bound for all Gaussian mechanisms, minus 1; NaN if there
        is no Δ² or no bound.
    """

    mechanism: str
    summary: str
    outcome: Outcome
    reason: str = ""
    seconds: float = float("nan")
    squared_privacy_cost: float = float("nan")
    epsilon: float = float("nan")
    pure_epsilon: float = float("nan")
    excess: float = float("nan")

    @property
    def privacy_cost(self) -> float:
        """Δ, the square root of the squared privacy cost."""
        return float(np.sqrt(self.squared_privacy_cost))


@dataclass(frozen=True)
class Price:
    """The price of a target: how much Δ² would fall if the target were relaxed.

    Attributes
    ----------
    label : str
        The label of the query, or of the group of queries that are priced together.
    queries : int
        Number of queries in the group; 1 for a single query.
    target : float
        The smallest variance target of these queries.
    elasticity : float
        The percentage by which Δ² falls if these queries' targets are relaxed by one per cent; all
        elasticities sum to 1.
    """

    label: str
    queries: int
    target: float
    elasticity: float

    @property
    def free(self) -> bool:
        """Whether the price is negligible, because other targets already require this accuracy."""
        return self.elasticity < FREE_BELOW


@dataclass(frozen=True)
class Relaxation:
    """The saving from relaxing the targets of highest price, predicted from the prices, and actual.

    Attributes
    ----------
    labels : tuple of str
        The labels of the targets that were relaxed.
    factor : float
        The factor that multiplied these targets.
    predicted, actual : float
        Δ² after the relaxation divided by Δ² before it.
    epsilon_before, epsilon_predicted, epsilon_actual : float
        The least ε before the relaxation, and the predicted and the actual least ε after it.
    """

    labels: tuple[str, ...]
    factor: float
    predicted: float
    actual: float
    epsilon_before: float
    epsilon_predicted: float
    epsilon_actual: float


@dataclass(frozen=True, eq=False)
class Answers:
    """The accuracy of every answer under the recommended mechanism, with the targets just met.

    Attributes
    ----------
    targets, variances : numpy.ndarray, shape (m,)
        The variance bound of each query, and the actual variance of its answer.
    confidences : numpy.ndarray, shape (m,)
        Confidence level of each answer's interval.
    """

    labels: tuple[str, ...]
    targets: Array
    variances: Array
    confidences: Array

    @property
    def standard_errors(self) -> Array:
        """Standard errors of the answers, shape (m,)."""
        return np.sqrt(self.variances)

    @property
    def half_widths(self) -> Array:
        """Margins of error, shape (m,): half the width of every confidence interval."""
        return self._quantiles * np.sqrt(self.variances)

    @property
    def margins(self) -> Array:
        """Margins of error, shape (m,), if every variance were equal to its target."""
        return self._quantiles * np.sqrt(self.targets)

    @property
    def _quantiles(self) -> Array:
        return np.asarray(scipy.special.ndtri(0.5 + self.confidences / 2))


@dataclass(frozen=True)
class FreeAnswer:
    """A further query that costs no privacy.

    Attributes
    ----------
    standard_error : float
        Standard error of the most accurate answer to the query.
    derived : bool
        Whether this answer follows from the answers to the workload without new noise.
    """

    label: str
    standard_error: float
    derived: bool


@dataclass(frozen=True)
class Budget:
    """The accuracy of the recommended mechanism at a privacy budget.

    Attributes
    ----------
    epsilon : float
        ε of the budget; the budget's δ is that of the advice.
    variance_ratio_at_budget : float
        Largest ratio of a variance to its target at this budget; at most 1 if the budget meets all
        targets.
    """

    epsilon: float
    variance_ratio_at_budget: float


@dataclass(frozen=True, eq=False)
class Advice:
    """The result of `advise`: what queries with targets cost, and why.

    Attributes
    ----------
    delta : float
        The δ for which every ε holds.
    neighbours : str
        The relation of neighbouring databases, in words.
    candidates : tuple of Candidate
        The result of every mechanism, sorted by ε; mechanisms without an ε are last.
    recommended : Candidate
        The Gaussian mechanism of least Δ²; the quickest if several agree up to 1e-4.
    lower_bound : float
        Certified lower bound on the Δ² of every Gaussian mechanism that meets the targets; NaN if
        unknown.
    answers : Answers
        Accuracy under the recommended mechanism.
    prices : tuple of Price
        Sorted by elasticity, the highest first; empty if no solution has certified dual weights.
    price_gap : float
        Certified gap of the solution whose weights are the prices; the prices are exact if the gap
        is 0. NaN if there are no prices.
    relaxation : Relaxation, optional
        The effect of relaxing the targets of highest price; None if there are no prices, or if
        ``price_gap`` is above 1 %.
    """

    queries: int
    cells: int
    delta: float
    neighbours: str
    candidates: tuple[Candidate, ...]
    recommended: Candidate
    lower_bound: float
    answers: Answers = field(repr=False)
    prices: tuple[Price, ...] = field(repr=False)
    price_gap: float
    relaxation: Relaxation | None
    free: tuple[FreeAnswer, ...] = field(repr=False)
    budget: Budget | None

    @property
    def pure(self) -> Candidate | None:
        """The mechanism of least ε among mechanisms with pure differential privacy.

        None unless this ε is less than that of the recommended mechanism.
        """
        finite = (candidate for candidate in self.candidates if np.isfinite(candidate.pure_epsilon))
        best = min(finite, key=lambda candidate: candidate.epsilon, default=None)
        return best if best and best.epsilon < self.recommended.epsilon else None


_Trial = tuple[Candidate, Solution | None]
"""The result of a mechanism, and its solution if there is one."""


def advise(
    workload: Workload | ArrayLike,
    targets: ArrayLike | None = None,
    *,
    delta: float,
    epsilon: float | None = None,
    mechanisms: Sequence[str] | None = None,
    further: Workload | None = None,
    time_limit: float = 90.0,
    neighbours: Written = "add-remove",
    progress: Callable[[str], None] = lambda step: None,
) -> Advice:
    """Find the best mechanism, the price of each target, and which further queries are free.

    `optimal` is tried first, to a gap of 1e-4, and may take most of the time. By default, the
    mechanisms that can still win are tried next: those whose noise is not Gaussian and, unless a
    solution so far has a certified gap of at most 1 %, all others. Mechanisms that can no longer
    win are tried in what is left of ten seconds. A mechanism that is expected to take more than
    half a second, and more than its share of the time, is not tried.

    Parameters
    ----------
    workload : Workload or array_like
        The queries, for instance from `workloads.from_queries`.
    targets : array_like, optional
        The variance bound of each query; default: the targets that the workload states.
    delta : float
        The δ for which every ε holds, between 0 and 1.
    epsilon : float, optional
        ε of a budget; the accuracy at this budget is computed too.
    mechanisms : sequence of str, optional
        Names in `solvers.all_mechanisms`; each is tried, however long it takes. By default,
        mechanisms are chosen as described above from all that call no user's function.
    further : Workload, optional
        Further queries over the same domain cells, to find out which of them are free.
    time_limit : float
        Seconds for all solves together; mechanisms without a ``time_limit`` may exceed it.
    neighbours : str, Mapping or Neighbours
        The relation of neighbouring databases, as for `solvers.solve`.
    progress : callable
        Called before each step with a short description of the step.

    Raises
    ------
    OptionError
        If δ, ε, the time limit or the neighbours are invalid.
    NotApplicableError
        If no Gaussian mechanism gives a solution, or there are too many queries to list.
    WorkloadError, TargetsError, UnknownMechanismError
        In the same cases as in `solvers.solve`.
    """
    _check(delta, epsilon, time_limit)
    relation = as_neighbours(neighbours)
    problem = as_problem(workload, targets, relation)
    if not problem.workload.listed:
        raise NotApplicableError(
            f"advice on {problem.size}: too many queries to list; use solvers.solve('optimal', ...)"
        )
    ends = time.monotonic() + time_limit
    tried = list(_try_mechanisms(problem, delta, mechanisms, ends, progress))
    solved = {candidate.mechanism: solution for candidate, solution in tried if solution}
    bounds = (solution.known_lower_bound or 0.0 for solution in solved.values())
    bound = max(bounds, default=0.0) or float("nan")
    ranked = sorted((one for one, _ in tried), key=lambda one: (np.isnan(one.epsilon), one.epsilon))
    candidates = tuple(
        replace(one, excess=float(np.maximum(one.squared_privacy_cost / bound - 1, 0.0)))
        for one in ranked
    )
    recommended = _recommend(candidates)
    best = solved[recommended.mechanism]
    priced = _choose_priced(solved.values(), problem.workload.m)
    prices, relaxation = (
        _price_targets(problem, priced, delta, ends, progress) if priced else ((), None)
    )
    hidden = "adding or removing one record"
    if not relation.add_remove:
        hidden = "replacing one record by another"
    stated = problem.workload.stated
    size = problem.workload.m
    return Advice(
        queries=size,
        cells=problem.workload.d,
        delta=delta,
        neighbours=hidden + relation.title.removeprefix(relation.relation),
        candidates=candidates,
        recommended=recommended,
        lower_bound=bound,
        answers=Answers(
            _list_labels(problem.workload),
            problem.targets,
            best.query_variances,
            np.full(size, _CONFIDENCE) if stated is None else stated.confidences,
        ),
        prices=prices,
        price_gap=priced.gap if priced else float("nan"),
        relaxation=relaxation,
        free=() if further is None else _find_free(best, problem, further),
        budget=None
        if epsilon is None
        else Budget(epsilon, best.at_budget(epsilon, delta).variance_ratio_at_budget),
    )


def _check(delta: float, epsilon: float | None, time_limit: float) -> None:
    if not 0 < delta < 1:
        raise OptionError(f"delta is {delta!r}; expected a number between 0 and 1, such as 1e-6")
    if epsilon is not None and not 0 < epsilon < np.inf:
        raise OptionError(f"epsilon is {epsilon!r}; expected a positive finite number")
    if not time_limit > 0:
        raise OptionError(f"time limit is {time_limit!r}; expected a positive number of seconds")


def _try_mechanisms(
    problem: Problem,
    delta: float,
    mechanisms: Sequence[str] | None,
    ends: float,
    progress: Callable[[str], None],
) -> Iterator[_Trial]:
    """Try `optimal`, then what can win, quickest first; all, if ``mechanisms`` names them."""
    every = (m for m in all_mechanisms().values() if not m.runs_code)
    named = every if mechanisms is None else map(find, mechanisms)
    listed = [(_estimate_seconds(m, problem), m) for m in named if "matrix" in m.workload_kinds]
    chosen = sorted(
        listed, key=lambda pair: (pair[1].name != _BEST, pair[1].name not in _PURE, pair[0])
    )
    gap, others_end = np.inf, min(ends, time.monotonic() + ALL_TRIED_SECONDS)
    for number, (seconds, mechanism) in enumerate(chosen):
        can_win = gap > _CERTIFIED or mechanism.name in _PURE
        left = max((ends if mechanisms or can_win else others_end) - time.monotonic(), 0.0)
        share = _SHARE_OF_BEST if mechanism.name == _BEST else 1 / (len(chosen) - number + 1)
        limit = max(share * left, QUICK_SECONDS)
        if mechanisms is None and number > 0 and seconds > limit:
            reason = f"about {seconds:.3g} s are expected"
            if not can_win:
                reason = f"the best so far is within {100 * gap:.1g} % of the least possible Δ²"
            left_out = f"not tried: {reason}; name it to try it"
            yield Candidate(mechanism.name, mechanism.summary, "not tried", left_out), None
            continue
        limited = "time_limit" in mechanism.params()
        bounded = f", at most {max(limit, 1):.0f} s" if limited else ""
        progress(f"{mechanism.name} ({number + 1} of {len(chosen)}{bounded})")
        candidate, solution = _try_one(mechanism, problem, delta, limit)
        if solution is not None and solution.known_lower_bound:
            gap = min(gap, solution.gap)
        yield candidate, solution


def _estimate_seconds(mechanism: type[Mechanism], problem: Problem) -> float:
    try:
        work = expected_work(mechanism.name, problem.workload, None, problem.neighbours)
    except OverflowError:
        return np.inf
    return work.flops * SECONDS_PER_FLOP


def _solve(mechanism: type[Mechanism], problem: Problem, **options: object) -> Solution:
    """Solve with those of the options that the mechanism takes, and `_BEST` up to `_CLOSE`."""
    if mechanism.name == _BEST:
        options["tol"] = _CLOSE
    taken = {name: value for name, value in options.items() if name in mechanism.params()}
    chosen = mechanism.make(None, taken)
    return solve(chosen, problem.workload, problem.targets, neighbours=problem.neighbours)


def _try_one(
    mechanism: type[Mechanism], problem: Problem, delta: float, time_limit: float
) -> _Trial:
    candidate = Candidate(mechanism.name, mechanism.summary, "ok")
    started = time.perf_counter()
    try:
        solution = _solve(mechanism, problem, time_limit=time_limit)
    except NotApplicableError as error:
        return replace(candidate, outcome="not applicable", reason=str(error)), None
    except (SolverError, MemoryError) as error:
        seconds = time.perf_counter() - started
        return replace(candidate, outcome="failed", reason=str(error), seconds=seconds), None
    epsilon = float(solution.curve.epsilon_at_targets(delta))
    pure = np.inf if solution.noise.gaussian else float(solution.curve.epsilon_at_targets(0.0))
    stopped = "" if solution.converged else "ended before its own stopping rule; others find less"
    if solution.timed_out:
        stopped = "stopped at its time limit; more time may find less"
    found = replace(
        candidate,
        outcome="stopped" if stopped else "ok",
        reason=_UNKNOWN if np.isnan(epsilon) else stopped,
        seconds=time.perf_counter() - started,
        squared_privacy_cost=solution.squared_privacy_cost,
        epsilon=epsilon,
        pure_epsilon=pure,
    )
    return found, solution


def _choose_priced(solutions: Iterable[Solution], queries: int) -> Solution | None:
    """Return the solution of least certified gap among those with dual weights, or None."""
    certified = [
        solution
        for solution in solutions
        if solution.known_lower_bound
        and solution.weights is not None
        and len(solution.weights.q) == queries
    ]
    return min(certified, key=lambda s: (max(s.gap, _CLOSE), s.runtime), default=None)


def _recommend(candidates: Sequence[Candidate]) -> Candidate:
    """Return the quickest of the Gaussian mechanisms whose Δ² is the least, up to `_CLOSE`."""
    gaussian = [c for c in candidates if np.isfinite(c.squared_privacy_cost)]
    if not gaussian:
        reasons = "; ".join(candidate.reason for candidate in candidates if candidate.reason)
        raise NotApplicableError(
            "no mechanism with Gaussian noise gave an answer: "
            f"{reasons or 'none was tried; name one that has it, such as optimal'}"
        )
    least = min(candidate.squared_privacy_cost for candidate in gaussian)
    equal = (c for c in gaussian if c.squared_privacy_cost <= (1 + _CLOSE) * least)
    return min(equal, key=lambda candidate: candidate.seconds)


def _price_targets(
    problem: Problem,
    solution: Solution,
    delta: float,
    ends: float,
    progress: Callable[[str], None],
) -> tuple[tuple[Price, ...], Relaxation | None]:
    """Return the prices, highest first, and the saving from relaxing the dearest targets.

    There is one price for each group, or for each query if there are no groups. The saving, None if
    the solution's gap is above `_CERTIFIED`, comes from a second solve.
    """
    assert solution.weights is not None
    group, labels = problem.workload.groups, problem.workload.group_names
    if group is None:
        group, labels = np.arange(problem.workload.m), _list_labels(problem.workload)
    count = len(labels)
    elasticities = np.bincount(group, solution.weights.q / solution.weights.q.sum(), count)
    least = np.full(count, np.inf)
    np.minimum.at(least, group, problem.targets)
    sizes, order = np.bincount(group, minlength=count), np.argsort(-elasticities, kind="stable")
    prices = tuple(
        Price(labels[i], int(sizes[i]), float(least[i]), float(elasticities[i])) for i in order
    )
    if solution.gap > _CERTIFIED:
        return prices, None
    progress(f"{solution.mechanism}, the dearest targets relaxed")
    dearest = [price for price in prices[:_DEAREST] if not price.free]
    dear = np.isin(group, order[: len(dearest)])
    relaxed = replace(problem, targets=np.where(dear, _FACTOR, 1.0) * problem.targets)
    seconds = _SHARE_OF_RELAXATION * max(ends - time.monotonic(), 0.0)
    anew = _solve(find(solution.mechanism), relaxed, start=solution.weights, time_limit=seconds)
    predicted = float(_FACTOR ** -sum(price.elasticity for price in dearest))
    actual = anew.squared_privacy_cost / solution.squared_privacy_cost
    costs = np.sqrt(solution.squared_privacy_cost * np.array([1.0, predicted, actual]))
    names = tuple(price.label for price in dearest)
    epsilons = privacy.epsilon(costs, delta).tolist()
    return prices, Relaxation(names, _FACTOR, predicted, actual, *epsilons)


def _list_labels(workload: Workload) -> tuple[str, ...]:
    """Return the queries' labels; ``query 0``, ``query 1``, ... if they have none."""
    return workload.labels or tuple(f"query {number}" for number in range(workload.m))


def _find_free(solution: Solution, problem: Problem, further: Workload) -> tuple[FreeAnswer, ...]:
    """Further queries that are free and not in the workload, most accurate first.

    Empty if there are too many cells, or too many pairs of neighbouring cells.
    """
    d, relation = problem.workload.d, problem.neighbours
    if d > _LARGEST_FREE or not (relation.add_remove or relation.count(d) <= _MOST_PAIRS):
        return ()
    existing = set(_key_rows(problem.workload))
    new = [number for number, row in enumerate(_key_rows(further)) if row not in existing]
    if not new:
        return ()
    extra = solution.free_queries(further.dense[new])
    names = _list_labels(further)
    return tuple(
        FreeAnswer(names[new[place]], float(np.sqrt(extra.variances[place])), not extra.free[place])
        for place in np.argsort(extra.variances, kind="stable")
        if np.isfinite(extra.variances[place])
    )


def _key_rows(workload: Workload) -> Iterator[tuple[bytes, bytes]]:
    """Yield a hashable key for each query; equal queries have equal keys."""
    matrix = scipy.sparse.csr_array(workload.matrix, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    for first, end in itertools.pairwise(matrix.indptr):
        yield matrix.indices[first:end].astype(np.int64).tobytes(), matrix.data[first:end].tobytes()
