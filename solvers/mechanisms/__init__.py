"""One module for each mechanism; each defines ``MECHANISMS``, a tuple of `solvers.Mechanism`."""
