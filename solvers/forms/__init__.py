"""The reductions by which problems are solved, and the choice of one for each problem.

Each module that defines ``REDUCTION``, a `reduction.Reduction`, solves problems in one way: on the
query matrix itself (`dense`), on `differences` of neighbouring cells, on the factors of a Kronecker
product (`kronecker`), or on `orbits` of equivalent cells and queries.
"""
