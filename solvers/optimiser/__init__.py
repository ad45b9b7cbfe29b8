"""The optimiser of dual weights: one interior point for query matrices and for marginals.

In: a `Program`, that is a function f of non-negative weights, their linear cost and the groups
whose weights sum to one; f is a nuclear norm of one of two kinds,

- `blocks.MatrixBlocks`: matrices that share the weights of their columns and of their rows (a
  query matrix is one block), dense or known by their structure;
- `scalar_blocks.ScalarBlocks`: any number of blocks of size one, in one matrix.

Out: a `Progress` of `interior_point.maximise`: certified bounds and the points that prove them.
"""

from solvers.optimiser.blocks import Block, BlocksPoint, MatrixBlocks
from solvers.optimiser.interior_point import maximise
from solvers.optimiser.program import NewtonSystem, Point, Program, multiplicative_step
from solvers.optimiser.progress import Progress
from solvers.optimiser.scalar_blocks import ScalarBlocks, ScalarPoint

__all__ = [
    "Block",
    "BlocksPoint",
    "MatrixBlocks",
    "NewtonSystem",
    "Point",
    "Program",
    "Progress",
    "ScalarBlocks",
    "ScalarPoint",
    "maximise",
    "multiplicative_step",
]
