"""A problem on the orbits of a union of products, and the matrices into which its dual splits.

The symmetry of the problem is found first; arrays over the orbits are computed when they are used.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from math import prod
from typing import Protocol, Self, runtime_checkable

import numpy as np
import scipy

from solvers.dual import programs
from solvers.dual.iteration import Deadline, Stopping
from solvers.dual.matrix_blocks import Block, BlocksPoint, MatrixBlocks, as_blocks
from solvers.dual.newton_system import Rows
from solvers.dual.predictor_corrector import Optimum
from solvers.dual.programs import Weights
from solvers.dual.refinement import FIRST_TOL, from_optimum
from solvers.dual.spectrum import TIGHTEST_TOL
from solvers.forms.dense import estimate_work
from solvers.forms.orbits.marginal_problem import SingleOrbit
from solvers.forms.orbits.orbits import LEAST_FLOPS, OnOrbits, Orbits
from solvers.forms.orbits.products import (
    INDICATORS,
    Attribute,
    Choice,
    Component,
    Index,
    Layout,
    Products,
    Span,
    choice_count,
    components,
    products,
)
from solvers.forms.reduction import ObstacleError
from solvers.mechanism import Mechanism, Work
from solvers.noise.factorisation import Factorisation, InBasis, identity, multiplied
from solvers.noise.noise import GaussianNoise
from solvers.noise.verification import noise_from_root
from solvers.problem import Problem, memory
from solvers.problem.factors import Factors, bytes_of_basis
from solvers.solution import Solution
from solvers.strategy import inner_unscaled
from workloads import Workload, from_matrix
from workloads.operators import (
    Array,
    Explicit,
    Kronecker,
    Marginals,
    QueryOperator,
    Scaled,
    Stacked,
    dense,
    readable,
)
from workloads.workload import LARGEST_LISTED

_LARGEST_NUMBER = 1e300
"""Largest number of domain cells for which products are solved on orbits.

It leaves room below the largest float, 1.8e308, for numbers of cells times weights.
"""

_LARGEST_CHOICES = 20_000
"""Largest number of choices (of indicators or contrasts in each attribute) that are listed.

Prefixes over three ordered cells in all tables of three of 20 attributes have 9 120, which give
1 351 matrices: they take 4 s to build, a time that grows with the square of their number, and then
3 s for each Newton step.
"""

_MATRICES = 8
"""Number of square matrices that a solve stores at once for each part, at the least.

It refuses what cannot fit before an array over the orbits is made; `work` then estimates all
memory. Prefixes over 500 and 900 ordered cells take 21 such matrices for each part.
"""


@dataclass(frozen=True, eq=False)
class Part(Span):
    """One of the matrices into which the dual splits.

    Attributes
    ----------
    problem : Problem
        The matrix as a workload, with the targets of its rows.
    """

    problem: Problem


@runtime_checkable
class OnProducts(Protocol):
    """A mechanism that solves unions of products on orbits, other than marginals."""

    def on_products(self, orbits: "ProductOrbits") -> Solution:
        """Solve the problem, with the results of the query matrix."""


@dataclass(frozen=True, eq=False)
class ProductOrbits(Orbits[BlocksPoint, Factorisation]):
    """A union of products on the orbits of its equivalent cells and of its equivalent queries.

    Attributes
    ----------
    products : Products
        The problem's queries as a union of products.
    attributes : tuple of Attribute
        The classes of values of each attribute; the orbits of cells are products of classes.
    group_targets : list of numpy.ndarray
        For each group, its targets in an array with one axis for each of `Group.axes`.
    cell_scale : numpy.ndarray, shape (n,), or float
        Divisors of the queries' columns: 1 unless the profile has personal bounds.
    """

    products: Products
    attributes: tuple[Attribute, ...]
    group_targets: list[Array]
    cell_scale: Array | float = 1.0

    forms = (OnProducts, OnOrbits)
    finest = FIRST_TOL

    @classmethod
    def of(cls, problem: Problem) -> "ProductOrbits | None":
        """Convert a problem to its orbits.

        None if the queries are not a union of products, or the domain is too large, or all cells
        form a single orbit.

        Raises
        ------
        ObstacleError
            If no two cells are equivalent, or if there are too many orbits or choices of contrasts.
        """
        operator = problem.workload.operator
        unlisted = isinstance(operator, Marginals) and max(operator.sizes) > LARGEST_LISTED
        if unlisted or problem.workload.d > _LARGEST_NUMBER or SingleOrbit.of(problem):
            return None
        orbits = orbit_problem(problem)
        if orbits is None:
            return None
        shape, groups = orbits.layout.cell_shape, orbits.products.groups
        apart = orbits.uneven_targets
        count = prod(shape)
        if count == problem.workload.d:
            because = apart or "every attribute is ordered, or has one value"
            raise ObstacleError(f"{because}, so no two cells are equivalent")
        # an upper bound on the number of coordinates in use (`solvers.problem.factors`)
        seen = min(sum(prod(shape[axis] for axis in group.axes) for group in groups), count)
        short = memory.shortage(8.0 * _MATRICES * seen**2 + bytes_of_basis(seen, count))
        if short:
            because = f" ({apart})" if apart else ""
            raise ObstacleError(f"its {readable(count)} orbits of cells{because} take {short}")
        choices = choice_count(orbits.products, orbits.attributes)
        if choices > _LARGEST_CHOICES:
            raise ObstacleError(
                f"its attributes have {readable(choices)} subsets that some query keeps apart, "
                f"more than the limit of {_LARGEST_CHOICES}; keep fewer attributes together"
            )
        return orbits

    @property
    def uneven_targets(self) -> str:
        """A phrase for messages, if targets differ between values of a categorical attribute."""
        groups = self.products.groups
        names = self.problem.workload.group_names or tuple(map(str, range(len(groups))))
        uneven = [
            name
            for name, group, targets in zip(names, groups, self.group_targets, strict=True)
            if any(
                axis in group.kept
                and axis not in self.ordered_axes
                and np.ptp(targets, axis=i).any()
                for i, axis in enumerate(group.axes)
            )
        ]
        if not uneven:
            return ""
        some = f"{len(uneven)} of {len(groups)} groups, the first of them {uneven[0]!r},"
        return f"the targets within {some} differ from value to value"

    def solve(self, mechanism: Mechanism) -> Solution:
        """Solve by the mechanism's form on products, or else on orbits."""
        if isinstance(mechanism, OnProducts):
            return mechanism.on_products(self)
        assert isinstance(mechanism, OnOrbits)
        return mechanism.on_orbits(self)

    def work(self, mechanism: Mechanism) -> Work:
        """Estimate the work of a solve of every part by its query matrix."""
        works = [estimate_work(mechanism, part.problem) for part in self.parts]
        listed = [size for size in self.problem.workload.shape if size <= LARGEST_LISTED]
        flops = LEAST_FLOPS + sum(work.flops for work in works)
        return Work(flops, 24.0 * sum(listed) + sum(work.bytes for work in works))

    @cached_property
    def layout(self) -> Layout:
        """The orbits of cells and of queries, which drawing errors needs."""
        return Layout(self.products, self.attributes)

    @cached_property
    def targets(self) -> Array:
        """The variance bound of the queries in each orbit, group by group, shape (r,)."""
        listed = []
        for group, targets in zip(self.products.groups, self.group_targets, strict=True):
            firsts = [
                self.attributes[axis].first if axis in group.kept and size > 1 else np.arange(size)
                for axis, size in zip(group.axes, targets.shape, strict=True)
            ]
            of_classes = targets[np.ix_(*firsts)]
            listed.append(np.broadcast_to(of_classes, self.layout.group_shape(group)).ravel())
        return np.concatenate(listed)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The matrices of the dual; components with the same groups and orbits share a matrix."""
        alike: dict[tuple[Choice, tuple[int, ...]], list[Component]] = {}
        for component in components(self.products, self.attributes):
            # contrasts of an attribute's only class involve the same orbits as its indicator
            selection = tuple(
                INDICATORS if size == 1 else k
                for size, k in zip(self.layout.cell_shape, component.choice, strict=True)
            )
            # a query depends on contrasts of an attribute only if its factor is the identity
            seen = tuple(
                number
                for number, group in enumerate(self.products.groups)
                if group.kept.issuperset(component.chosen)
            )
            alike.setdefault((selection, seen), []).append(component)
        return tuple(self._build_part(*key, tuple(same)) for key, same in alike.items())

    def _build_part(
        self, selection: Choice, seen: tuple[int, ...], same: tuple[Component, ...]
    ) -> Part:
        """Build the matrix ``(ν / N_r) M_ro`` of components; ``seen`` are its groups of queries."""
        rank = sum(component.rank for component in same)
        operators: list[tuple[QueryOperator, Array]] = []
        numbers: list[Index] = []
        for number in seen:
            group = self.products.groups[number]
            along = [selection[axis] for axis in group.axes]
            numbers.append(
                self.layout.starts[number] + _select(self.layout.group_shape(group), along)
            )
            # a factor for each attribute that is ordered, or that has several classes of which
            # the indicators are chosen
            factors = [
                group.factor(axis, size)
                for axis, (size, k) in enumerate(
                    zip(self.layout.cell_shape, selection, strict=True)
                )
                if (k == INDICATORS and size > 1) or axis in self.ordered_axes
            ]
            scale = rank / self.copies[numbers[-1]]
            operators.append((self.products.product(factors), scale))
        rows, columns = np.concatenate(numbers), _select(self.layout.cell_shape, selection)
        whole = _stack(operators)
        divisors = np.broadcast_to(self.cell_scale, self.cells.size)[columns]
        if np.any(divisors != 1):
            whole = Explicit(dense(whole.matrix()) / divisors)
        problem = Problem(Workload("orbits", whole), self.targets[rows])
        return Part(rows, columns, seen, same, problem)

    @property
    def places(self) -> list[tuple[Rows, Rows]]:
        """For each part of the dual, the indices of its orbits of queries and of cells."""
        return [(part.rows, part.columns) for part in self.parts]

    @cached_property
    def blocks(self) -> MatrixBlocks:
        """The matrices of all parts, as blocks for the optimiser in `solvers.dual`."""
        blocks = tuple(Block(part.problem.factors, part.rows, part.columns) for part in self.parts)
        return MatrixBlocks(blocks, self.cells.size, np.zeros(self.targets.size), free_queries=True)

    @property
    def whole(self) -> Factors | MatrixBlocks:
        """What `solvers.dual` takes: the blocks."""
        return self.blocks

    @property
    def start(self) -> Weights:
        """The initial weights: equal for all cells, and equal for all orbits of queries."""
        r = self.targets.size
        return Weights(self.cells / self.cells.sum(), np.full(r, 1 / r))

    def first(self, given: Weights | None) -> Weights | None:
        """Return the default weights to start from; None leaves the choice to the optimiser."""
        return given or self.start

    def optimum(
        self, stopping: Stopping, start: Weights | None = None, total_error_weight: float = 0.0
    ) -> Optimum[BlocksPoint]:
        """Compute the least Δ² at which every target can be met, or the least hybrid objective."""
        first = self.first(start)
        if total_error_weight == 0:
            return programs.optimum(self.whole, stopping, first)
        weights = total_error_weight * self.targets * self.copies
        return programs.hybrid(self.whole, weights, stopping, first)

    def least_total_error(self, weights: Array, stopping: Stopping) -> Optimum[BlocksPoint]:
        """Compute the least weighted sum of variance ratios (`programs.least_total_error`)."""
        first = self.first(None)
        start = None if first is None else first.p
        return programs.least_total_error(self.whole, weights, stopping, start)

    def at(self, weights: Weights) -> BlocksPoint:
        """Evaluate the dual's function f at these weights, as accurately as possible."""
        return as_blocks(self.whole, TIGHTEST_TOL).at(np.concatenate([weights.p, weights.q]))

    def weights_at(self, point: BlocksPoint) -> Weights:
        """Return the weights of all cells and queries at a point of the dual, as by `spread`."""
        return self.spread(Weights(point.p, point.q))

    def inner(self, mechanism: str, point: BlocksPoint) -> tuple[Factorisation, ...]:
        """Return the unscaled inner solution at a point of the dual, on each part.

        Raises
        ------
        SolveFailedError
            If the product of the solution's factors is not the query matrix.
        """
        return tuple(
            inner_unscaled(mechanism, part.problem, point.p[part.columns], spectrum)
            for part, spectrum in zip(self.parts, point.spectra, strict=True)
        )

    def refine(
        self, mechanism: str, result: Optimum[BlocksPoint], tol: float, deadline: Deadline
    ) -> tuple[tuple[Factorisation, ...], int, Optimum[BlocksPoint]]:
        """Find the optimum that is least in the refined ordering (`from_optimum`)."""
        roots, levels, result = from_optimum(result, tol, deadline)
        return self.from_roots(mechanism, roots), levels, result

    def from_roots(self, mechanism: str, roots: Sequence[Array]) -> tuple[Factorisation, ...]:
        """Return the unscaled noise with covariance ``root @ root.T`` on each part.

        Raises
        ------
        SolveFailedError
            If the product of the factors L and B is not the query matrix.
        """
        problems = [part.problem for part in self.parts]
        return tuple(
            noise_from_root(mechanism, problem, problem.basis, problem.queries, root)
            for problem, root in zip(problems, roots, strict=True)
        )

    def on_cells(self, mechanism: str) -> tuple[Factorisation, ...]:
        """Return noise of unit variance on every cell, on the contrasts of each part."""
        noises = []
        for part in self.parts:
            shares = part.rank / self.cells[part.columns]
            cells = Explicit(scipy.sparse.csr_array(scipy.sparse.diags_array(np.sqrt(shares))))
            matrix = scipy.sparse.csr_array(part.problem.workload.operator.matrix())
            scaled = scipy.sparse.csr_array(matrix @ scipy.sparse.diags_array(shares**-0.5))
            queries = Explicit(scaled)
            noises.append(Factorisation(queries, cells, InBasis(cells, queries, 1.0)))
        return tuple(noises)

    def on_queries(self, deviation: float) -> tuple[Factorisation, ...]:
        """Return noise of this standard deviation on every query, on the contrasts of parts."""
        noises = []
        for part in self.parts:
            queries, operator = identity(part.rows.size), part.problem.workload.operator
            roots = deviation * np.sqrt(part.rank / self.copies[part.rows])
            left, right = Scaled(queries, roots), Scaled(operator, 1 / roots)
            noises.append(Factorisation(left, right, InBasis(operator, queries, 1.0)))
        return tuple(noises)

    def mean_inverse(self, point: BlocksPoint) -> float:
        """Sum the inverse squares of B's singular values, per cell, at a point of the dual."""
        pairs = zip(self.parts, point.spectra, strict=True)
        total = sum(part.rank**2 * float((1 / own.singular).sum()) for part, own in pairs)
        return total / float(self.cells.sum())

    def spans(self, noises: Sequence[Factorisation]) -> Iterator[tuple[Span, Factorisation]]:
        """Pair each part of the problem with its factorisation; ``noises`` has these in order."""
        return zip(self.parts, noises, strict=True)

    def with_columns_divided(self, divisor: Array) -> Self:
        """Return a copy with the queries' columns divided by one number for each orbit of cells."""
        return replace(self, cell_scale=self.cell_scale * divisor)


@dataclass(frozen=True, eq=False)
class Unreduced(ProductOrbits):
    """A problem as it is: every cell and every query is an orbit of its own.

    By this, a mechanism's form on orbits solves problems on the query matrix, too.
    """

    @classmethod
    def of(cls, problem: Problem) -> Self:
        """Every problem is of this kind."""
        d = problem.workload.d
        return cls(problem, Products((d,), ()), (Attribute(np.arange(d)),), [])

    @property
    def targets(self) -> Array:
        """The variance bound of every query, shape (m,)."""
        return self.problem.targets

    @cached_property
    def copies(self) -> Array:
        """One query in each orbit."""
        return np.ones(self.problem.workload.m)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The query matrix as the only part."""
        rows, columns = map(np.arange, self.problem.workload.shape)
        whole = Component((INDICATORS,), 1.0)
        return (Part(rows, columns, (0,), (whole,), self.problem),)

    @property
    def whole(self) -> Factors:
        """The factors, from which the optimiser also makes coarser problems to start from."""
        return self.problem.factors

    def first(self, given: Weights | None) -> Weights | None:
        """Return the given weights; without any, the optimiser finds some on coarser problems."""
        return given

    def spread(self, weights: Weights) -> Weights:
        """Return the weights themselves."""
        return weights

    def collect(self, weights: Weights) -> Weights:
        """Return the weights as given; the optimiser interpolates those of another size."""
        return weights

    def with_columns_divided(self, divisor: Array) -> Self:
        """Return a copy whose queries' columns are divided by numbers, one for each cell."""
        divided = from_matrix(self.problem.workload.matrix / divisor[None, :])
        return self.of(Problem(divided, self.targets))

    def on_cells(self, mechanism: str) -> tuple[Factorisation]:
        """Return noise of unit variance on every cell; L has the structure of the queries."""
        cells, queries = identity(self.problem.workload.d), self.problem.workload.operator
        return (Factorisation(queries, cells, InBasis(cells, queries, 1.0)),)

    def on_queries(self, deviation: float) -> tuple[Factorisation]:
        """Return noise of this deviation on every query; B has the structure of the queries."""
        queries, own = self.problem.workload.operator, identity(self.problem.workload.m)
        left, right = multiplied(own, deviation), multiplied(queries, 1 / deviation)
        return (Factorisation(left, right, InBasis(queries, own, deviation)),)

    def present(self, noise: GaussianNoise, parts: tuple[Factorisation, ...]) -> GaussianNoise:
        """Return the only part, a factorisation of the query matrix."""
        (only,) = parts
        return only


def _stack(operators: Sequence[tuple[QueryOperator, Array]]) -> QueryOperator:
    """Stack operators with their row scales; a run of the same operator is stored once."""
    runs = [list(run) for _, run in groupby(operators, key=lambda pair: id(pair[0]))]
    scaled = [Scaled(run[0][0], np.concatenate([scale for _, scale in run])) for run in runs]
    return scaled[0] if len(scaled) == 1 else Stacked(tuple(scaled))


def _select(shape: Sequence[int], selection: Sequence[int]) -> Index:
    """List the flat indices of an array's selected entries: along each axis, one or all."""
    numbers = np.zeros(1, dtype=np.intp)
    for size, k in zip(shape, selection, strict=True):
        entries = np.arange(size) if k == INDICATORS else np.array([k])
        numbers = (numbers[:, None] * size + entries).ravel()
    return numbers


def orbit_problem(problem: Problem) -> ProductOrbits | None:
    """Convert a problem to its orbits; None if its queries are not a union of products."""
    operator = problem.workload.operator
    if not isinstance(operator, Kronecker | Marginals):
        return None
    union = products(operator)
    targets = union.targets(problem.workload, problem.targets)
    return ProductOrbits(problem, union, union.attributes(targets), targets)
