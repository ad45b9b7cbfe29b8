"""The place that keeps an experiment's results: a folder, or a prefix of an object store.

Input: records and arrays. Output: the same, even after a kill. The source of truth is the
journal: the immutable segments ``journal/*.jsonl``. The ledger, ``index.npz`` and ``results.zarr``
are derived from it. A store also has a lease and the arrays that the experiment keeps.
"""
