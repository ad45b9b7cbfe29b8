"""Experiments as grids of cells.

Input: an `Experiment`. Output: one `Grid` for each group, with its axes and its cells; every
parameter is bound, and every name and value checked. A cell's identity depends only on its content.
"""
