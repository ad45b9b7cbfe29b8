"""Marginals solved in subset variables, exactly, whatever the size of the domain.

Applies where the workload is made of marginals, the targets are constant within each of
them, and the mechanism has a form in `solvers.marginals.forms`.
"""

from solvers.marginals.dispatch import solver
from solvers.marginals.forms import FORMS
from solvers.marginals.solution import MarginalsSolution
from solvers.marginals.structure import Structure, structure
from solvers.marginals.work import expected_work

__all__ = [
    "FORMS",
    "MarginalsSolution",
    "Structure",
    "expected_work",
    "solver",
    "structure",
]
