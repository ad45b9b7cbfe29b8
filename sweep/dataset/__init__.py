"""Datasets: the results of a store as xarray datasets, derived from the journal.

The input is the grids and the journal's ledger. The output is a dataset, or a tree with one dataset
for each group; attributes describe the meaning, units and origin of every variable. This package
also contains the engine with which xarray opens a store.
"""
