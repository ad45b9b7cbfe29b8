"""From noise to (ε, δ): the Gaussian curve, privacy loss distributions, every mechanism's budget.

Input: privacy costs, distributions, how far neighbours move the answers. Output: budget curves.
"""

from solvers.privacy.gaussian import delta, epsilon, privacy_cost

__all__ = ["delta", "epsilon", "privacy_cost"]
