"""From noise to (ε, δ): the Gaussian curve, privacy loss distributions, every mechanism's budget.

In: privacy costs, distributions, how far neighbours move the answers. Out: budget curves.
"""

from solvers.privacy.gaussian import delta, epsilon, privacy_cost

__all__ = ["delta", "epsilon", "privacy_cost"]
