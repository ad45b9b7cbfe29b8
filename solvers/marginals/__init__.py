"""Marginals solved in subset variables, exactly, whatever the size of the domain.

Applies where the workload is made of marginals, the targets are constant within each of
them, and the mechanism has a form on marginals (`solvers.reductions.marginals`).
"""

from solvers.marginals.structure import Structure, structure

__all__ = ["Structure", "structure"]
