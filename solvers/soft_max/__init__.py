"""Problem 4 of PVLDB 14(10), which has soft maxima, and Algorithms 1 to 3, which solve it.

Input: a problem in a basis, and a first covariance. Output: a covariance and its certificate.
"""
