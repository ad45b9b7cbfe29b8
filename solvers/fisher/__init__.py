"""Noise of least Fisher information (Farokhi and Sandberg, paper 003)."""

from solvers.fisher.cosine import CosineSquared
from solvers.fisher.scalar import gaussian_deviation, laplace_scale

__all__ = ["CosineSquared", "gaussian_deviation", "laplace_scale"]
