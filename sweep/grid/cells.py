"""Cells: the points of a grid, each with an identity that depends on its content alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from solvers.neighbours import ADD_REMOVE, Neighbours
from sweep.experiment.canonical import Scalar, digest
from sweep.experiment.files import identity
from workloads.family import Kind


@dataclass(frozen=True)
class Spec:
    """A workload family or a targets rule by name, with all its parameters.

    Attributes
    ----------
    name : str
        A name of `workloads.families` or `workloads.targets.rules`.
    params : Mapping[str, Any]
        Every parameter, defaults included, JSON-like.
    """

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)

    def content(self) -> dict[str, Any]:
        """The JSON-like content that the identity is a hash of."""
        return {"name": self.name, "params": identity(self.params)}


@dataclass(frozen=True)
class WorkloadSpec(Spec):
    """A workload family by name, with all its parameters.

    Attributes
    ----------
    kind : {"matrix", "graph"}
        Whether it makes a query matrix or a query graph. It follows from the name, so it is not
        part of the identity.
    """

    kind: Kind = "matrix"


@dataclass(frozen=True)
class MechanismSpec:
    """A mechanism by name, with all its options.

    Attributes
    ----------
    name : str
        A name of `solvers.mechanisms`.
    options : Mapping[str, Any]
        Every option, preset and defaults included, JSON-like.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def content(self) -> dict[str, Any]:
        """The JSON-like content that the identity is a hash of."""
        return {"name": self.name, "options": identity(self.options)}


@dataclass(frozen=True)
class Cell:
    """One point of a grid.

    Attributes
    ----------
    group : str
        The group of the grid that it belongs to.
    coords : Mapping[str, Scalar]
        Its label along every axis of its grid; along ``mechanism``, the mechanism's label.
    workload : WorkloadSpec
        The queries.
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


@dataclass(frozen=True)
class Axis:
    """One dimension of a grid.

    Attributes
    ----------
    name : str
        The dimension's name, for instance ``d``.
    values : tuple of Scalar
        The labels along it, distinct, in order.
    companions : Mapping[str, tuple of Scalar]
        Further coordinates along it (zipped axes), each as long as ``values``.
    """

    name: str
    values: tuple[Scalar, ...]
    companions: Mapping[str, tuple[Scalar, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Grid:
    """The cells of one group of an experiment, and the axes that they lie on.

    Attributes
    ----------
    group : str
        The group's name, which is also that of its node in the data tree.
    axes : tuple of Axis
        The dimensions, ``mechanism`` last.
    scalars : Mapping[str, Scalar]
        Coordinates without a dimension: the parameters that all cells share.
    cells : tuple of Cell
        Some or all points of the product of the axes.
    """

    group: str
    axes: tuple[Axis, ...]
    scalars: Mapping[str, Scalar]
    cells: tuple[Cell, ...]

    @property
    def relations(self) -> str:
        """Which databases are neighbours, in words; several where it is an axis."""
        return "; ".join(dict.fromkeys(cell.relation for cell in self.cells))
