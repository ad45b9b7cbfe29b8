"""The noise of Kronecker products with equal targets, solved exactly factor by factor.

The optimum of Problem 1 is γ₂(A)², where γ₂ is the factorisation norm and A is W with every row
divided by the square root of its target. For W = W1 ⊗ ... ⊗ Wn with equal targets, the product of
the factors' optimal covariances is optimal. The products of the factors' dual weights prove this,
because the nuclear norm of a Kronecker product is the product of the factors' nuclear norms. Hence
γ₂(A1 ⊗ A2) = γ₂(A1) γ₂(A2) (Lee, Shraibman and Špalek 2008, theorem 17). The same argument holds
for the least total error at equal weights. The covariances of GM, of IP and of the mechanism of
least Fisher information are products by definition.

A union of several products cannot be solved factor by factor.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np
import scipy

from solvers.errors import NotApplicableError
from solvers.noise.factorisation import Factorisation
from solvers.noise.noise import LARGEST_EXPANDED, GaussianNoise, refuse_unlisted
from workloads.operators import LARGEST_MATRIX_BYTES, Array, Kronecker, Matrix
from workloads.operators.protocol import kron
from workloads.workload import LARGEST_LISTED


@dataclass(frozen=True, eq=False)
class ProductNoise(GaussianNoise):
    """The noise of a product of mechanisms, one for each factor of the workload.

    Attributes
    ----------
    parts : tuple of Factorisation
        The mechanism of each factor, with unit targets.
    target : float
        The common target of all queries.
    """

    parts: tuple[Factorisation, ...]
    target: float

    @property
    def squared_privacy_cost(self) -> float:
        """Δ² when targets are just met: the product of the factors' Δ², divided by the target."""
        return prod(part.squared_privacy_cost for part in self.parts) / self.target

    @cached_property
    def query_variances(self) -> Array:
        """Variance of every query, shape (m,); with more than 10^7 queries, only the largest."""
        if self._queries > LARGEST_LISTED:
            return np.array([self.target])
        return self.target * kron([part.query_variances for part in self.parts])

    @cached_property
    def privacy_profile(self) -> Array:
        """Squared cost of every cell, shape (d,); with more than 10^7 cells, only the largest."""
        if prod(part.strategy.shape[1] for part in self.parts) > LARGEST_LISTED:
            return np.array([self.squared_privacy_cost])
        return kron([part.privacy_profile for part in self.parts]) / self.target

    @property
    def total_variance(self) -> float:
        """Sum of the query variances when the targets are just met."""
        return self.target * prod(part.total_variance for part in self.parts)

    @property
    def fisher_information(self) -> float:
        """Trace of the Fisher information about x when the targets are just met."""
        return prod(part.fisher_information for part in self.parts) / self.target

    @property
    def coordinates(self) -> "ProductNoise":
        """The noise itself: its basis and covariance are products over the factors."""
        return self

    @property
    def basis(self) -> Array:
        """The Kronecker product B of the factors' own bases, shape (k, d)."""
        return _written_out("B", [part.coordinates.basis for part in self.parts])

    @property
    def representation(self) -> Matrix:
        """W expressed in `basis`, as a CSR array of shape (m, k)."""
        product = scipy.sparse.csr_array(np.ones((1, 1)))
        for part in self.parts:
            product = scipy.sparse.csr_array(
                scipy.sparse.kron(product, part.coordinates.representation)
            )
        return product

    @property
    def covariance(self) -> Array:
        """Covariance of the noise on Bx, shape (k, k)."""
        return self.target * _written_out("Σ", [part.coordinates.covariance for part in self.parts])

    def divided(self, scale: float) -> "ProductNoise":
        """Return a copy whose noise is divided by ``scale``."""
        return replace(self, target=self.target / scale**2)

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Draw n vectors of errors, shape (n, m), by applying the factors' L one after another."""
        refuse_unlisted(self._queries)
        left = Kronecker((tuple(part.left for part in self.parts),))
        numbers = rng.standard_normal((n, left.shape[1]))
        errors: Array = self.target**0.5 * left.apply(numbers.T).T
        return errors

    @property
    def fits(self) -> bool:
        """Whether the product's rank is small enough to write its covariance out."""
        return prod(part.strategy.shape[0] for part in self.parts) <= LARGEST_EXPANDED

    @property
    def _queries(self) -> int:
        return prod(part.decoder.shape[0] for part in self.parts)


def _written_out(what: str, arrays: Sequence[Array]) -> Array:
    rows, columns = (prod(array.shape[i] for array in arrays) for i in (0, 1))
    if 8 * rows * columns > LARGEST_MATRIX_BYTES:
        raise NotApplicableError(
            f"{what} of a product is not written out as a {rows} x {columns} matrix; "
            "use the factors in noise.parts, which describe it completely"
        )
    return kron(arrays)
