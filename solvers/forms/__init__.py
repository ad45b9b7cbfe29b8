"""The forms in which a problem is solved, and the rule that chooses one for it.

Each module with a ``REDUCTION``, a `reduction.Reduction`, is one form: the query matrix itself
(`dense`), `differences` of neighbouring cells, a `kronecker` product, or `orbits` of equivalent
cells and queries.
"""
