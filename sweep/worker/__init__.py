"""The work of one Dask worker.

Input: one task. Output: a record in the journal for every cell that the task serves. Nothing is
raised: an error, an exceeded time limit or an answer that contradicts its certificate is recorded
in the cell's status. The module `solve` creates the records. If a solve ignores its time limit,
`kill_timer` writes records that `perform` has prepared, and ends the process.
"""
