"""The most useful mechanism on a query graph for a prior, by linear programming."""

from solvers.graph.lp_optimal import solve
from solvers.mechanism import Mechanism, Work


def work(m: int, d: int) -> Work:
    """HiGHS on n² variables; the factor is measured on sums, grids and databases to n = 50."""
    return Work(flops=1.7e3 * float(m) ** 4, bytes=2e3 * m * d)


MECHANISMS = (
    Mechanism(
        "lp-optimal",
        "greatest utility for a prior on a query graph, by linear programming",
        source="POST 2013, section 2.2; Ghosh, Roughgarden, Sundararajan",
        work=work,
        solve_graph=solve,
    ),
)
