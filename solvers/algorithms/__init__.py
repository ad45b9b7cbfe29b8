"""Algorithms that one mechanism each is built on.

In: matrices, counts. Out: matrices, partitions, trees.
"""
