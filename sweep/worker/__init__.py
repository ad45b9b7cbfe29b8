"""The work of one Dask worker.

In: one task. Out: a record for every cell that it serves, in the journal. Nothing is raised: an
error, a time limit or an answer that contradicts its certificate becomes the status of its cell.
"""
