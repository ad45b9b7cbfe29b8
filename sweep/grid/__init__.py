"""Expansion of experiments into grids of cells.

Input: an `Experiment`. Output: one `Grid` for each group, with its axes and its cells. Defaults are
filled in, and every name and value is checked. A cell's identity depends only on the content of the
cell.
"""
