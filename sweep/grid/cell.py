"""A cell: one point of a grid, with an identity that depends on its content alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from solvers.neighbours import ADD_REMOVE, Neighbours
from sweep.experiment.canonical import Scalar, digest
from sweep.grid.specs import MechanismSpec, Spec, WorkloadSpec


@dataclass(frozen=True)
class Cell:
    """One point of a grid.

    Attributes
    ----------
    group : str
        The group of the grid that it belongs to.
    coords : Mapping[str, Scalar]
        Its label along every axis of its grid; along ``mechanism``, the mechanism's label.
    targets : Spec
        The rule that gives every query its variance target.
    mechanism : MechanismSpec
        The mechanism that the experiment names; its label is not part of the identity.
    solved_mechanism : MechanismSpec
        The mechanism that is run. It differs from ``mechanism`` where both are the same by
        definition (wCA-I with equal targets is CA), so that one solve serves both.
    replicate : int
        Number of the repetition, from 0.
    simulate : int
        Number of noise vectors to draw from the mechanism; 0 for none.
    neighbours : Neighbours
        Which databases the mechanism must not tell apart. Part of the identity where it is not
        add-remove.
    """

    group: str
    coords: Mapping[str, Scalar]
    workload: WorkloadSpec
    targets: Spec
    mechanism: MechanismSpec
    solved_mechanism: MechanismSpec
    replicate: int = 0
    simulate: int = 0
    neighbours: Neighbours = ADD_REMOVE

    @cached_property
    def id(self) -> str:
        """The cell's identity: the same in every run, whatever else the grid holds."""
        return digest([*self._problem(), self.mechanism.content(), self.replicate, self.simulate])

    @property
    def relation(self) -> str:
        """Which databases are neighbours, in words."""
        if self.workload.kind == "graph":
            return "adjacent answers of the query graph"
        return self.neighbours.title

    @cached_property
    def workload_key(self) -> str:
        """Equal for cells that share a workload."""
        return digest(self.workload.content())

    @cached_property
    def problem_key(self) -> str:
        """Equal for cells that share a workload and its targets."""
        return digest(self._problem())

    @cached_property
    def solve_key(self) -> str:
        """Equal for cells that one solve serves."""
        return digest([*self._problem(), self.solved_mechanism.content(), self.replicate])

    def _problem(self) -> list[Any]:
        known = [self.workload.content(), self.targets.content()]
        if self.neighbours.add_remove:
            return known
        return [*known, {"neighbours": self.neighbours.content()}]
