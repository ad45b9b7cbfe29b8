"""How errors are made: factorisations W = L B, products of them and independent numbers, checked.

In: a problem, roots or weights. Out: a `release.Release`.
"""
