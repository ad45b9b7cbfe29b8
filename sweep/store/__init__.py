"""The folder that keeps an experiment's results.

In: records and arrays. Out: the same, after any kill. The folder has a lock, a journal of immutable
segments (the truth), the arrays that the experiment keeps, and versions of the derived dataset.
"""
