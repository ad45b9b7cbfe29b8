"""Query matrices as operators: what a solver may ask of W without holding W.

Every operator answers the same questions (`QueryOperator`). `Explicit` holds the matrix;
`Cumulative`, `Kronecker` and `Marginals` know it by its structure.
"""

from workloads.operators.cumulative import Cumulative
from workloads.operators.explicit import Explicit
from workloads.operators.kronecker import Kronecker
from workloads.operators.marginals import Marginals
from workloads.operators.protocol import (
    LARGEST_MATRIX_BYTES,
    Array,
    Matrix,
    QueryOperator,
    refuse_above_limit,
)

__all__ = [
    "LARGEST_MATRIX_BYTES",
    "Array",
    "Cumulative",
    "Explicit",
    "Kronecker",
    "Marginals",
    "Matrix",
    "QueryOperator",
    "refuse_above_limit",
]
