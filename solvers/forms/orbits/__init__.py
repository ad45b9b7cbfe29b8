"""Queries that are equivalent under relabelling are solved as one: workloads as blocks, and back.

In: a `Problem` whose queries are unions of Kronecker products, each factor the identity, the
total, or any matrix over an ordered attribute. Values of an attribute that no query and no
target tells apart are interchangeable: they form a *class*. An ordered attribute has a class for
each value, a categorical one a single class, one whose value k has targets of its own two. The
products of classes are the *orbits* of cells, and queries fall into orbits likewise.

Out: matrices over the orbits, as `solvers.dual` takes them, and from its answer noise on
all queries, however many they are.

Problem 1 does not change under relabelling within classes, and its dual is concave: weights that
are constant on orbits lose nothing. For every attribute the functions of its values that such
relabelling leaves alone are spanned by the indicators of its classes; the others are, for each
class of s values, the contrasts within it, s - 1 of them alike. So the dual's matrix falls into
one matrix for every choice, attribute by attribute, of the indicators or of the contrasts of one
class, as often as there are contrasts (the product of the s - 1). With p the weight of an orbit
of n_o cells altogether, q that of an orbit of N_r queries, it is

    sqrt(q_r / c_r) * (ν / N_r) * M_ro * sqrt(p_o),

M the queries' sum of products on indicators, ν the number of times that it occurs. Choices that
the same queries see are one matrix, their numbers added.
"""

from solvers.forms.orbits.on_orbits import REDUCTION, OnOrbits
from solvers.forms.orbits.orbit_noise import AnyOrbits

__all__ = ["REDUCTION", "AnyOrbits", "OnOrbits"]
