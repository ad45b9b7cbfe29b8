"""Where results are kept.

In: records and arrays. Out: the same, after any kill: a folder with a lock, a journal of immutable
segments (the truth), the arrays that were asked for, and versions of the dataset derived from it.
"""
