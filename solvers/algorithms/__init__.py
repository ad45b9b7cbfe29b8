"""Algorithms, each of which one mechanism is built on.

In: matrices, counts. Out: matrices, partitions, trees.
"""
