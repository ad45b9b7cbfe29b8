"""One module for each mechanism; each defines ``METHODS``, a tuple of `solvers.Method`."""
