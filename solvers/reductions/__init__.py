"""One module for each reduction; each defines ``REDUCTION``, a `solvers.reduction.Reduction`."""
