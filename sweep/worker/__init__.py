"""The work of one Dask worker.

Input: one task. Output: a record in the journal for every cell that the task serves. Nothing is
raised: an error, an exceeded time limit or an answer that contradicts its certificate becomes the
status of its cell. `solve` records the status, or `perform` if `kill_timer` has to end the process.
"""
