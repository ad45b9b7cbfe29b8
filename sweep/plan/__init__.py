"""Planning of the work that a run still has to do.

Input: the cells of the grids, and their records in the journal. Output: solves, packed into tasks,
with their expected cost; or a dry run that summarises them. One solve may serve several cells.
"""
