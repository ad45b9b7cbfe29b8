"""Marginals with one target for each, solved in subset variables whatever the size of the domain.

It takes the mechanisms that declare what they are there: `OnMarginals` among their ``forms``.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from solvers.marginals.structure import Structure, structure
from solvers.mechanism import Mechanism, Work, all_mechanisms
from solvers.optimiser.low_rank_system import LARGEST_FACTORISED
from solvers.orbits.symmetry import products
from solvers.problem import Problem
from solvers.reduction import Obstacle, Options, Reduction
from solvers.solution import Solution
from workloads import Workload
from workloads.operators import Kronecker, Marginals

CLOSED_FORM = frozenset({"tol", "max_iterations", "time_limit"})
"""Options of an iterative mechanism that are indifferent where it has a closed form."""

_LEAST_FLOPS = 1e7
_BYTES = 300.0


@dataclass(frozen=True)
class OnMarginals:
    """What a mechanism is in subset variables; it gives what the query matrix gives.

    Attributes
    ----------
    solve : callable
        ``solve(structure, *, option, ...) -> Solution``; its options are among those of the
        mechanism on query matrices, whose defaults and meanings they have.
    indifferent : frozenset of str
        Options on query matrices that change no answer here, whatever their value.
    flops_per_pair : float
        What it is expected to take for each pair of a marginal and a subset of it, fitted to
        measured solves.
    """

    solve: Callable[..., Solution]
    indifferent: frozenset[str] = frozenset()
    flops_per_pair: float = 3e3

    @property
    def options(self) -> frozenset[str]:
        """The options that it takes."""
        parameters = inspect.signature(self.solve).parameters.values()
        return frozenset(p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY)


def _accepts(problem: Problem) -> Structure | None:
    return structure(_as_marginals(problem))


def _as_marginals(problem: Problem) -> Problem:
    """Products of identities and totals, each once, are marginals too."""
    workload = problem.workload
    found = products(workload.operator) if isinstance(workload.operator, Kronecker) else None
    if found is None or any(group.matrices for group in found.groups):
        return problem
    subsets = tuple(tuple(sorted(group.kept)) for group in found.groups)
    if len(set(subsets)) < len(subsets):
        return problem
    return replace(problem, workload=replace(workload, operator=Marginals(found.sizes, subsets)))


def _obstacle(mechanism: Mechanism, options: Options) -> Obstacle | None:
    form = mechanism.form(OnMarginals)
    if form is None:
        others = (name for name, m in all_mechanisms().items() if m.form(OnMarginals))
        return Obstacle(
            f"it has no form in subset variables (there is one for {', '.join(others)})"
        )
    own = form.options | form.indifferent
    changed = mechanism.first_changed(options, other_than=own)
    if changed is None:
        return None
    return Obstacle(f"option {changed!r} needs the query matrix; leave it at its default")


def _solve(mechanism: Mechanism, smaller: Structure, options: Options) -> Solution:
    form = mechanism.form(OnMarginals)
    assert form is not None
    return form.solve(smaller, **{name: options[name] for name in form.options})


def _work(mechanism: Mechanism, workload: Workload, options: Options) -> Work | None:
    """By the number of pairs of a marginal and a subset of it, whatever the domain."""
    form = mechanism.form(OnMarginals)
    operator = _as_marginals(Problem(workload, np.ones(1))).workload.operator
    if form is None or not isinstance(operator, Marginals):
        return None
    subsets = operator.subsets
    pairs = sum(2 ** len(subset) for subset in subsets)
    dense = min(len(subsets), LARGEST_FACTORISED) ** 2
    flops = _LEAST_FLOPS + form.flops_per_pair * pairs
    return Work(flops=flops, bytes=_BYTES * pairs + 16.0 * dense)


REDUCTION = Reduction(
    "marginals in subset variables",
    10,
    _accepts,
    _obstacle,
    _solve,
    Structure.lower_bound,
    _work,
)
