"""Problems on orbits: cells and queries that are equivalent under relabelling are treated as one.

Input: a `Problem` whose queries are a union of Kronecker products. Each factor is the identity, the
total, or any matrix over an ordered attribute. Values of an attribute that neither queries nor
targets distinguish are interchangeable: they form a *class*. In an ordered attribute every value is
a class of its own. A categorical attribute has a single class, or several if the targets of its
values differ. The products of classes are the *orbits* of cells; queries form orbits likewise.

Output: matrices over the orbits, as `solvers.dual` takes them; and, from the answer of
`solvers.dual`, the noise on all queries, however many there are.

Problem 1 does not change under relabelling within classes, and its dual is concave, so some optimal
weights are constant on orbits. For every attribute, the functions of its values that relabelling
leaves unchanged are spanned by the indicators of its classes. The other functions are spanned by
contrasts: each class of s values has s - 1 contrasts, which are equivalent. So the dual's matrix
splits into smaller matrices: one for every way to choose, for each attribute, either the indicators
or the contrasts of one class. Such a matrix occurs ν times, where ν is the product of s - 1 over
the chosen classes. Let p_o be the weight of orbit o of n_o cells, and let q_r be the weight of
orbit r of N_r queries with targets c_r. Then the matrix, multiplied by ν, is

    sqrt(q_r / c_r) * (ν / N_r) * M_ro * sqrt(p_o),

where M is the query matrix with one row or column for each class instead of each value. Choices
with the same queries and the same orbits share one matrix, and their ν are added.
"""

from solvers.forms.orbits.marginal_problem import OnMarginals, SingleOrbit
from solvers.forms.orbits.orbit_problem import OnProducts, ProductOrbits, Unreduced
from solvers.forms.orbits.orbits import AnyOrbits, OnOrbits

__all__ = [
    "AnyOrbits",
    "OnMarginals",
    "OnOrbits",
    "OnProducts",
    "ProductOrbits",
    "SingleOrbit",
    "Unreduced",
]
