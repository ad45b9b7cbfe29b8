"""The noise: factorisations W = L B, their products and independent noise, and their checks.

Input: a problem, roots or weights. Output: a `release.Release`.
"""
