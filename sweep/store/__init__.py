"""The place that keeps an experiment's results: a folder, or a prefix of an object store.

Input: records and arrays. Output: the same records and arrays, even if the process that wrote them
was killed. The source of truth is the journal: the immutable segments ``journal/*.jsonl``. The
ledger, ``index.npz`` and ``results.zarr`` are derived from the journal. A store also has a lease,
which locks it for one run, and the arrays that the experiment keeps.
"""
