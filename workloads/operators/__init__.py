"""Query matrices as operators, which solvers can use without W in memory.

All operators share one interface (`QueryOperator`). `Explicit` holds the matrix itself, and `Drawn`
draws it when it is first needed; `Cumulative`, `Kronecker` and `Marginals` compute with its
structure. Three operators wrap others: `Scaled` multiplies queries by numbers, `Composed` applies
them to combinations of cells, and `Stacked` stacks the queries of several operators.
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
    readable,
    refuse_above_limit,
)

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
