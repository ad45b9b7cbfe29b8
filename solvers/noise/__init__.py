"""Noise: factorisations W = L B, products of them, independent noise and noise matrices.

Input: a problem, with a covariance root, noise parameters or a noise matrix. Output: a
`noise.Noise`, whose numbers have been checked.
"""
