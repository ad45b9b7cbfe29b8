"""When a privacy cost contradicts a certified lower bound on it."""

import numpy as np

ROUNDING = 1e-8
"""How far a cost may lie below its bound before it contradicts it, relatively.

Singular values are read off Gram matrices of squared condition up to 1e13: each is known to
eps / (2 sqrt(1e-13)) = 3.5e-10 of the largest, and a bound to a few times that.
"""


def contradiction(squared_privacy_cost: float, lower_bound: float | None) -> str | None:
    """What is wrong with a cost, beyond rounding; None if nothing is.

    Parameters
    ----------
    squared_privacy_cost : float
        Δ² when all targets are met.
    lower_bound : float, optional
        A certified lower bound on it.
    """
    if not 0 < squared_privacy_cost < np.inf:
        return (
            f"the answer has the squared privacy cost {squared_privacy_cost}; expected a positive "
            "finite number: too ill-conditioned for double precision"
        )
    if lower_bound is None or squared_privacy_cost >= lower_bound * (1 - ROUNDING):
        return None
    short = 1 - squared_privacy_cost / lower_bound
    return (
        f"the answer contradicts its certificate: Δ² = {squared_privacy_cost:.12g} is {short:.1e} "
        f"below the proven bound {lower_bound:.12g}; too ill-conditioned for double precision: "
        "bring norms and targets closer together"
    )
