"""The noise: factorisations W = L B, their products and independent noise, and their checks.

In: a problem, roots or weights. Out: a `release.Release`.
"""
