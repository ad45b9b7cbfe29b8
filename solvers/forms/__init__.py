"""The forms in which a problem is solved, and the rule by which it finds its own.

Each module with a ``REDUCTION``, a `reduction.Reduction`, is one form: the query matrix itself
(`dense`), `differences` of neighbouring cells, a `kronecker` product, `orbits` of what is alike.
"""
