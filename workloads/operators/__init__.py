"""Query matrices as operators, which solvers can use without W in memory.

All operators share one interface (`QueryOperator`). `Explicit` holds the matrix itself, `Drawn`
makes it at its first use; `Cumulative`, `Kronecker` and `Marginals` compute with its structure;
`Scaled` multiplies the queries of any of them by numbers, `Composed` takes them over combinations
of the cells, `Stacked` puts those of several one below another.
"""

from workloads.operators.composed import Composed, on_cells
from workloads.operators.cumulative import Cumulative, cumulative, differences
from workloads.operators.explicit import Drawn, Explicit
from workloads.operators.kronecker import Kronecker, kind_of
from workloads.operators.marginals import Marginals
from workloads.operators.matrices import dense
from workloads.operators.protocol import (
    LARGEST_MATRIX_BYTES,
    Array,
    Indices,
    Matrix,
    QueryOperator,
    refuse_above_limit,
)
from workloads.operators.scaled import Scaled
from workloads.operators.stacked import Stacked

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
    "refuse_above_limit",
]
