"""The matrices into which the dual splits, and mechanisms on each of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import scipy

from solvers.forms.orbits.layout import Layout
from solvers.forms.orbits.products import INDICATORS, Choice, Component, Group, Index, components
from solvers.noise.factorisation import Factorisation, InBasis, identity
from solvers.noise.verification import from_root
from solvers.problem import Problem
from solvers.strategy import inner_unscaled
from workloads import Workload
from workloads.operators import Array, Explicit, Matrix, QueryOperator, Scaled, Stacked, dense


@dataclass(frozen=True, eq=False)
class Span:
    """Some orbits of queries, restricted to contrasts on which they are nonzero.

    Attributes
    ----------
    rows : numpy.ndarray of int
        Indices of the orbits of queries, ascending.
    columns : numpy.ndarray of int
        Indices of the orbits of cells that the contrasts involve, ascending.
    groups : tuple of int
        Indices of the groups of queries.
    components : tuple of Component
        The contrasts.
    """

    rows: Index
    columns: Index
    groups: tuple[int, ...]
    components: tuple[Component, ...]

    @property
    def rank(self) -> float:
        """ν: the number of contrasts."""
        return sum(component.rank for component in self.components)


@dataclass(frozen=True, eq=False)
class Part(Span):
    """One of the matrices into which the dual splits.

    Attributes
    ----------
    cells : numpy.ndarray
        n_o: number of cells of each of its columns' orbits.
    copies : numpy.ndarray
        N_r: number of queries of each of its rows' orbits.
    """

    problem: Problem
    cells: Array
    copies: Array

    def inner(self, mechanism: str, p: Array, spectrum: Any) -> Factorisation:
        """The unscaled inner solution at dual weights, from the spectrum there.

        Raises
        ------
        SolveFailedError
            If the factors do not give the queries.
        """
        return inner_unscaled(mechanism, self.problem, p, spectrum)

    def from_root(self, mechanism: str, root: Array) -> Factorisation:
        """The unscaled mechanism with covariance ``root @ root.T``; it raises what `inner` does."""
        own = self.problem
        return from_root(mechanism, own, own.basis, own.queries, root)

    def on_cells(self, mechanism: str) -> Factorisation:
        """Noise of unit variance on every cell, as far as the queries depend on it."""
        shares = self.rank / self.cells
        cells = Explicit(scipy.sparse.csr_array(scipy.sparse.diags_array(np.sqrt(shares))))
        matrix = scipy.sparse.csr_array(self.problem.workload.operator.matrix())
        queries = Explicit(scipy.sparse.csr_array(matrix @ scipy.sparse.diags_array(shares**-0.5)))
        return Factorisation(queries, cells, InBasis(cells, queries, 1.0))

    def on_queries(self, deviation: float) -> Factorisation:
        """Noise of equal variance on every query."""
        queries, own = identity(self.rows.size), self.problem.workload.operator
        roots = deviation * np.sqrt(self.rank / self.copies)
        coordinates = InBasis(own, queries, 1.0)
        return Factorisation(Scaled(queries, roots), Scaled(own, 1 / roots), coordinates)

    def inverse_trace(self, noise: Any) -> float:
        """Trace of the pseudo-inverse of the Fisher information about the part's contrasts."""
        strategy = dense(noise.right) * np.sqrt(self.cells / self.rank)
        return self.rank * float(np.square(np.linalg.pinv(strategy)).sum())


def dual_blocks(layout: Layout, targets: Array, cell_scale: Array | float) -> Iterator[Part]:
    """Yield one part for each set of contrasts that involve the same groups and the same orbits.

    Parameters
    ----------
    targets : numpy.ndarray, shape (r,)
        The variance bound of every orbit of queries.
    cell_scale : numpy.ndarray, shape (n,), or float
        Divisors of the queries' columns, one for each orbit of cells.
    """
    alike: dict[tuple[Choice, tuple[int, ...]], list[Component]] = {}
    for component in components(layout.products, layout.attributes):
        seen = tuple(
            at
            for at, group in enumerate(layout.products.groups)
            if group.kept.issuperset(component.chosen)
        )
        alike.setdefault((_selection(layout, component), seen), []).append(component)
    for (selection, seen), own in alike.items():
        yield _part(layout, targets, cell_scale, selection, seen, tuple(own))


def _selection(layout: Layout, component: Component) -> Choice:
    """The component's choice, but indicators for attributes of one class: they select no orbits."""
    return tuple(
        INDICATORS if attribute.sizes.size == 1 else k
        for attribute, k in zip(layout.attributes, component.choice, strict=True)
    )


def _part(
    layout: Layout,
    targets: Array,
    cell_scale: Array | float,
    selection: Choice,
    seen: tuple[int, ...],
    own: tuple[Component, ...],
) -> Part:
    rank = sum(component.rank for component in own)
    starts = np.cumsum([0, *layout.group_sizes])
    operators: list[tuple[QueryOperator, Array]] = []
    numbers: list[Index] = []
    for at in seen:
        group = layout.products.groups[at]
        along = [selection[axis] for axis in group.axes]
        numbers.append(starts[at] + _chosen(layout.group_shape(group), along))
        operators.append((_operator(layout, group, selection), rank / layout.copies[numbers[-1]]))
    rows, columns = np.concatenate(numbers), _chosen(layout.cell_shape, selection)
    whole = _stacked(operators)
    scale = np.broadcast_to(cell_scale, layout.cells.size)[columns]
    if np.any(scale != 1):
        whole = Explicit(dense(whole.matrix()) / scale)
    problem = Problem(Workload("orbits", whole), targets[rows])
    cells, copies = layout.cells[columns], layout.copies[rows]
    return Part(rows, columns, seen, own, problem, cells, copies)


def _operator(layout: Layout, group: Group, selection: Choice) -> QueryOperator:
    """The group's queries on the orbits of cells that ``selection`` picks.

    It is a product with a factor for each attribute that is ordered, or that has several classes
    and is selected by indicators.
    """
    factors: list[Matrix] = []
    for axis, (attribute, k) in enumerate(zip(layout.attributes, selection, strict=True)):
        several = k == INDICATORS and attribute.sizes.size > 1
        if several or axis in layout.ordered_axes:
            factors.append(group.factor(axis, attribute.sizes.size))
    return layout.products.product(factors)


def _stacked(operators: Sequence[tuple[QueryOperator, Array]]) -> QueryOperator:
    """The scaled operators, stacked; equal adjacent ones are kept once."""
    runs = [list(run) for _, run in groupby(operators, key=lambda pair: id(pair[0]))]
    scaled = [Scaled(run[0][0], np.concatenate([own for _, own in run])) for run in runs]
    return scaled[0] if len(scaled) == 1 else Stacked(tuple(scaled))


def _chosen(shape: Sequence[int], selection: Sequence[int]) -> Index:
    """Flat indices of the entries that the selection picks along each axis."""
    numbers = np.zeros(1, dtype=np.intp)
    for size, k in zip(shape, selection, strict=True):
        own = np.arange(size) if k == INDICATORS else np.array([k])
        numbers = (numbers[:, None] * size + own).ravel()
    return numbers
