"""The dataset derived from the journal.

In: the grids, and the ledger of the journal. Out: an xarray dataset, or a tree of one for each
group, with the meaning, units and origin of every variable; and the engine by which xarray opens a
store.
"""
