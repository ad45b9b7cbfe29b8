"""What an experiment means.

In: an `Experiment`. Out: one `Grid` for each group: its axes, and its cells, every parameter bound,
every name and value checked, each cell with an identity that depends on its content alone.
"""
