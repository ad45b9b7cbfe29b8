"""Datasets: the results of a store as xarray datasets, derived from the journal.

Input: the grids, and the journal's ledger. Output: a dataset, or a tree with one dataset for each
group; attributes describe the meaning, units and origin of every variable.
"""
