"""From the journal to the dataset.

In: the grids and the ledger of the journal. Out: an xarray dataset, or a tree with one for each
group, with every variable's meaning, units and origin; and the engine by which xarray opens a
store.
"""
