"""Problem 4 of PVLDB 14(10), the soft maximum, and Algorithms 1 to 3 that solve it.

In: a problem in a basis, a first covariance. Out: a covariance and its certificate.
"""
