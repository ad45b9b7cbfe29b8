"""Privacy accounting: from noise to (ε, δ) where a privacy cost alone does not suffice.

In: distributions, how far neighbours move the answers. Out: budget curves, noise at a budget.
"""
