"""The (ε, δ) of noise: the Gaussian curve, privacy loss distributions, every mechanism's budget.

Input: privacy costs, distributions, how far neighbours move the answers. Output: budget curves.
"""

from solvers.privacy.gaussian import delta, epsilon, privacy_cost

__all__ = ["delta", "epsilon", "privacy_cost"]
