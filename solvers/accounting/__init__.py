"""Privacy accounting: from noise to (ε, δ), for what is not covered by one privacy cost alone.

In: distributions, how far neighbours move the answers. Out: budget curves, noise at a budget.
"""
