"""The work of a run that remains to be done.

Input: the cells of the grids, and their records in the journal. Output: solves, each shared by the
cells that it serves, packed into tasks with their expected cost; or a dry run that shows them.
"""
