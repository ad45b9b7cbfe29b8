"""Experiments as grids of cells.

In: an `Experiment`. Out: one `Grid` for each group: its axes, and its cells, with every parameter
bound and every name and value checked. A cell's identity depends on its content alone.
"""
