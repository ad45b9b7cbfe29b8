"""The (ε, δ) guarantees of noise: Gaussian noise, privacy loss distributions, budget curves.

Input: privacy costs, noise distributions, and how far neighbours move the answers. Output: budget
curves.
"""

from solvers.privacy.gaussian import delta, epsilon, privacy_cost

__all__ = ["delta", "epsilon", "privacy_cost"]
