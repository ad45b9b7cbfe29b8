"""The work that is left to do.

In: the cells of the grids, and the journal's records of them. Out: solves, each shared by the cells
that it serves, packed into tasks with their expected cost; or a dry run that shows them.
"""
