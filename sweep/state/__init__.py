"""The state of a store's experiment, which planning, running and reporting share.

Input: a store, or an experiment with its grids, and the journal's ledger. Output: the cells of each
status, and the cells whose results are stale because other code solved them.
"""
