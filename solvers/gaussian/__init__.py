"""Gaussian mechanisms as factorisations W = L B, checked before they are handed out.

In: a problem, roots or weights. Out: factorisations, products of them, queries for free.
"""
