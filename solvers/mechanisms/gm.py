"""Gaussian mechanism: independent noise of equal variance on every query."""

from solvers.forms.kronecker import Multiplicative
from solvers.forms.orbits.on_orbits import OnOrbits
from solvers.forms.orbits.orbit_noise import AnyOrbits, OrbitsNoise, on_every_query
from solvers.mechanism import Mechanism, structured_work
from solvers.noise.factorisation import Factorisation, InBasis, identity, multiplied
from solvers.problem import Problem
from solvers.solution import Solution


def solve(problem: Problem) -> Solution:
    """Gaussian mechanism: independent noise of equal variance on every query.

    Δ² = (largest squared column norm of W) / min c, where c are the targets; no answer is derived
    from other answers. Every query gets the variance min c, so only the tightest target is just met
    (KDD'16, section 2). L is a multiple of the identity and B a multiple of W. By this definition
    the target of an all-zero query limits the noise, too, although the answer 0 needs no noise.
    """
    deviation = float(problem.targets.min()) ** 0.5
    noise = Factorisation(
        multiplied(identity(problem.workload.m), deviation),
        multiplied(problem.workload.operator, 1 / deviation),
        _on_queries(problem, deviation),
    )
    return Solution("GM", problem, noise)


def _on_queries(problem: Problem, deviation: float) -> InBasis:
    return InBasis(problem.workload.operator, identity(problem.workload.m), deviation)


def on_orbits(orbits: AnyOrbits) -> Solution:
    """Independent noise of equal variance on every query of every orbit."""
    deviation = float(orbits.targets.min()) ** 0.5
    return Solution("GM", orbits.problem, on_every_query(orbits, deviation, _of_orbits))


def _of_orbits(noise: OrbitsNoise) -> InBasis:
    assert noise.query_deviation is not None
    return _on_queries(noise.orbits.problem, noise.query_deviation)


MECHANISM = Mechanism.of(
    "GM",
    solve,
    source="KDD'16, sections 2 and 5; PVLDB 14(10), section 7",
    work=structured_work,
    variants=(OnOrbits(on_orbits, flops_per_pair=2e3), Multiplicative()),
)
