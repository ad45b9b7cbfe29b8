"""Query matrices as operators: what a solver may ask of W without holding W.

Every operator answers the same questions (`QueryOperator`). `Explicit` holds the matrix;
`Cumulative`, `Kronecker` and `Marginals` know it by its structure; `Scaled` multiplies the
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
