"""The place that keeps an experiment's results: a folder, or a prefix of an object store.

Input: records and arrays. Output: the same, after any kill. A store has a lock, a journal of
immutable segments (the truth), the arrays that the experiment keeps, and versions of the derived
dataset.
"""
