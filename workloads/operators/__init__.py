"""Query matrices as operators, which solvers can use without having W in memory.

All operators share one interface (`QueryOperator`). `Explicit` holds the matrix itself;
`Cumulative`, `Kronecker` and `Marginals` compute with its structure; `Scaled` multiplies the
queries of any of them by numbers.
"""

from workloads.operators.cumulative import Cumulative
from workloads.operators.explicit import Explicit
from workloads.operators.kronecker import Kronecker
from workloads.operators.marginals import Marginals
from workloads.operators.protocol import (
    LARGEST_MATRIX_BYTES,
    Array,
    Indices,
    Matrix,
    QueryOperator,
    refuse_above_limit,
)
from workloads.operators.scaled import Scaled

__all__ = [
    "LARGEST_MATRIX_BYTES",
    "Array",
    "Cumulative",
    "Explicit",
    "Indices",
    "Kronecker",
    "Marginals",
    "Matrix",
    "QueryOperator",
    "Scaled",
    "refuse_above_limit",
]
