"""Experiments as grids of cells.

Input: an `Experiment`. Output: one `Grid` for each group, with its axes and its cells. Every
parameter has a value, and every name and value is checked. A cell's identity depends only on the
content of the cell.
"""
