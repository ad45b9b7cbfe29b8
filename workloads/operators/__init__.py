"""Query matrices W as operators, which solvers can use without having W in memory.

All operators share one interface (`QueryOperator`). `Explicit` stores W, and `Drawn` draws a random
W when it is first needed; `Cumulative`, `Kronecker` and `Marginals` compute with the structure of
W. Three operators wrap others: `Scaled` multiplies each query by a factor, `Composed` multiplies W
by a matrix from the right, and `Stacked` stacks the queries of several operators.
"""

from workloads.operators.combined import Composed, Scaled, Stacked, on_cells
from workloads.operators.cumulative import Cumulative, cumulative, differences
from workloads.operators.explicit import Drawn, Explicit
from workloads.operators.kronecker import Kronecker, Marginals, kind_of
from workloads.operators.protocol import (
    LARGEST_MATRIX_BYTES,
    Array,
    Indices,
    Matrix,
    QueryOperator,
    dense,
    refuse_above_limit,
)
from workloads.parameters import readable

__all__ = [
    "LARGEST_MATRIX_BYTES",
    "Array",
    "Composed",
    "Cumulative",
    "Drawn",
    "Explicit",
    "Indices",
    "Kronecker",
    "Marginals",
    "Matrix",
    "QueryOperator",
    "Scaled",
    "Stacked",
    "cumulative",
    "dense",
    "differences",
    "kind_of",
    "on_cells",
    "readable",
    "refuse_above_limit",
]
