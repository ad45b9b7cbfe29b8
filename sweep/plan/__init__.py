"""What is left to do.

In: the cells of the grids and what the journal says of them. Out: solves, each shared by the cells
that it serves, packed into tasks with their expected cost; or the dry run that shows them.
"""
