"""Unions of Kronecker products, solved on the orbits of what is alike (`solvers.orbits`).

It takes the mechanisms that declare what they are there: `OnOrbits` among their ``forms``.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from solvers import dual, memory
from solvers.factors import structure_pays
from solvers.mechanism import Mechanism, Work, all_mechanisms
from solvers.orbits.structure import (
    LARGEST_CHOICES,
    LARGEST_NUMBER,
    Orbits,
    Symmetry,
    choice_count,
    symmetry,
)
from solvers.problem import Problem, readable
from solvers.reduction import Obstacle, Options, Reduction
from solvers.solution import Solution
from workloads import Workload
from workloads.operators import Marginals, QueryOperator
from workloads.workload import LARGEST_LISTED

_LEAST_FLOPS = 1e7
_MATRICES = 8
"""Square matrices that a solve holds of every part."""


def _none(orbits: Orbits, options: Options) -> str:
    return ""


@dataclass(frozen=True)
class OnOrbits:
    """What a mechanism is on orbits; it gives what the query matrix gives.

    Attributes
    ----------
    solve : callable
        ``solve(orbits, *, option, ...) -> Solution``; its options are among those of the
        mechanism on query matrices, whose defaults and meanings they have.
    ordered : bool
        Whether it needs an ordered attribute.
    hindrance : callable
        ``hindrance(orbits, options) -> str``: why its options keep it from these orbits, empty
        if they do not; the query matrix is tried then.
    """

    solve: Callable[..., Solution]
    ordered: bool = False
    hindrance: Callable[[Orbits, Options], str] = _none

    @property
    def options(self) -> frozenset[str]:
        """The options that it takes."""
        parameters = inspect.signature(self.solve).parameters.values()
        return frozenset(p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY)


def _accepts(problem: Problem) -> Orbits | Obstacle | None:
    found = symmetry(problem) if _listable(problem.workload) else None
    if found is None:
        return None
    apart = _apart(found)
    if found.cells == problem.workload.d:
        return None if apart is None else Obstacle(f"{apart}, so that no two cells are alike")
    short = memory.trouble(8.0 * _MATRICES * found.cells**2)
    if short is not None:
        because = f" ({apart})" if apart else ""
        return Obstacle(f"its {readable(found.cells)} orbits of cells{because} take {short}")
    count = choice_count(found.products, found.attributes)
    if count > LARGEST_CHOICES:
        return Obstacle(
            f"its attributes have {readable(count)} subsets that some query keeps apart, more "
            f"than the limit of {LARGEST_CHOICES}; keep fewer attributes together"
        )
    return found.orbits


def _listable(workload: Workload) -> bool:
    if workload.d > LARGEST_NUMBER:
        return False
    operator = workload.operator
    return not isinstance(operator, Marginals) or max(operator.sizes) <= LARGEST_LISTED


def _apart(found: Symmetry) -> str | None:
    """Which targets tell values apart that the queries do not; None if they tell none."""
    workload, told = found.problem.workload, found.told_apart
    if not told:
        return None
    names = workload.group_names or tuple(map(str, range(len(found.products.groups))))
    shown = [f"{names[at]!r} (attribute {_listed(axes)})" for at, axes in told.items()]
    more = f" and {len(shown) - 3} more groups" if shown[3:] else ""
    return f"the targets within {', '.join(shown[:3])}{more} differ from value to value"


def _listed(axes: Sequence[int]) -> str:
    return " and ".join(map(str, axes))


def _obstacle(mechanism: Mechanism, options: Options) -> Obstacle | None:
    form = mechanism.form(OnOrbits)
    if form is None:
        others = (name for name, m in all_mechanisms().items() if m.form(OnOrbits))
        return Obstacle(f"it has no form on orbits (there is one for {', '.join(others)})")
    changed = mechanism.first_changed(options, other_than=form.options)
    if changed is None:
        return None
    return Obstacle(f"option {changed!r} needs the query matrix; leave it at its default")


def _solve(mechanism: Mechanism, smaller: Orbits, options: Options) -> Solution:
    form = mechanism.form(OnOrbits)
    assert form is not None
    return form.solve(smaller, **{name: options[name] for name in form.options})


def _lower_bound(
    smaller: Orbits, tol: float, max_iterations: int, time_limit: float | None
) -> float:
    return dual.optimum(
        smaller.blocks,
        tol=tol,
        start=smaller.start,
        max_iterations=max_iterations,
        time_limit=time_limit,
    ).lower


def _work(mechanism: Mechanism, workload: Workload, options: Options) -> Work | None:
    """That of all parts at equal targets in each group."""
    smaller = _accepts(Problem(workload, np.ones(workload.target_count)))
    return _planned(mechanism, smaller, options) if isinstance(smaller, Orbits) else None


def _planned(mechanism: Mechanism, smaller: Orbits, options: Options) -> Work:
    works = [
        mechanism.expected_work(*operator.shape, options, form_work)
        for operator in (part.problem.workload.operator for part in smaller.parts)
        for form_work in [operator.form_work if _by_structure(mechanism, operator) else None]
    ]
    listed = [size for size in smaller.problem.workload.shape if size <= LARGEST_LISTED]
    flops = _LEAST_FLOPS + sum(work.flops for work in works)
    return Work(flops, 24.0 * sum(listed) + sum(work.bytes for work in works))


def _by_structure(mechanism: Mechanism, operator: QueryOperator) -> bool:
    return mechanism.uses_structure and structure_pays(operator)


def _hindrance(mechanism: Mechanism, smaller: Orbits, options: Options) -> Obstacle | None:
    """That there is no order, or that the parts are planned to take more memory than there is."""
    form = mechanism.form(OnOrbits)
    if form is not None and form.ordered and not smaller.ordered_axes:
        return Obstacle("its noise is on ordered cells, and no attribute is ordered")
    said = form.hindrance(smaller, options) if form is not None else ""
    if said:
        return Obstacle(said)
    short = memory.trouble(_planned(mechanism, smaller, options).bytes)
    return Obstacle(f"on its orbits it takes {short}") if short else None


REDUCTION = Reduction(
    "orbits of what is alike", 30, _accepts, _obstacle, _solve, _lower_bound, _work, _hindrance
)
