"""Independent noise, Gaussian or not, on answers or on cells.

In: a problem, a distribution. Out: noise of independent numbers, entropies.
"""
