"""Workloads as blocks, in which queries that are equivalent under relabelling are treated as one.

Input: a `Problem` whose queries are unions of Kronecker products, each factor the identity, the
total, or any matrix over an ordered attribute. Values of an attribute that no query and no target
distinguishes are interchangeable: they form a *class*. In an ordered attribute every value is a
class of its own; a categorical attribute has a single class, or two if one of its values has its
own targets. The products of classes are the *orbits* of cells; queries form orbits likewise.

Output: matrices over the orbits, as `solvers.dual` takes them; and, from the answer of
`solvers.dual`, the noise on all queries, however many there are.

Problem 1 does not change under relabelling within classes, and its dual is concave, so weights that
are constant on orbits lose nothing. For every attribute, the functions of its values that
relabelling leaves unchanged are spanned by the indicators of its classes; the other functions are,
for each class of s values, the s - 1 equivalent contrasts within it. So the dual's matrix splits
into smaller matrices. There is one for every way to choose, in each attribute, either the
indicators or the contrasts of one class. It occurs as often as there are combinations of the chosen
contrasts: the product of s - 1 over the chosen classes. With p the weight of an orbit of n_o cells
and q the weight of an orbit of N_r queries, the matrix is

    sqrt(q_r / c_r) * (ν / N_r) * M_ro * sqrt(p_o),

where M is the queries' sum of products on indicators and ν the number of times that the matrix
occurs. Choices with the same queries and the same orbits share one matrix, and their ν are added.
"""

from solvers.forms.orbits.on_orbits import REDUCTION, OnOrbits
from solvers.forms.orbits.orbit_noise import AnyOrbits

__all__ = ["REDUCTION", "AnyOrbits", "OnOrbits"]
