"""Kronecker products with equal targets: solved factor by factor, exactly.

The optimum of Problem 1 is γ₂(A)² and the nuclear norm is multiplicative, so for
W = W1 ⊗ ... ⊗ Wn with equal targets the products of the factors' dual weights prove what the
product of their covariances reaches: γ₂(A1 ⊗ A2) = γ₂(A1) γ₂(A2) (Lee, Shraibman and Špalek
2008, theorem 17). The same argument holds for the least total error at equal weights. GM,
IP and the covariance of least Fisher information are products by definition.

Unions of several products have no such structure.
"""
