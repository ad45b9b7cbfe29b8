"""The built-in mechanisms: every `solvers.Mechanism` that a module of this package defines."""
