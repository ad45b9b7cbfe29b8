"""The dataset derived from the journal.

Input: the grids, and the ledger of the journal. Output: an xarray dataset, or a tree with one
dataset for each group, with the meaning, units and origin of every variable; and the engine by
which xarray opens a store.
"""
