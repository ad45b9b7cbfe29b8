"""The work of one Dask worker.

Input: one task. Output: a record in the journal for every cell that it serves. Nothing is raised:
an error, a time limit or an answer that contradicts its certificate becomes the status of its cell,
in `solve`, or in `perform` if `kill_timer` had to end the process.
"""
