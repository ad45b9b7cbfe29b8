"""Stores: each saves one experiment's results, in a folder or under a prefix of an object store.

Input: records and arrays. Output: the same records and arrays, even if the process that wrote them
was killed. The source of truth is the journal: the immutable segments ``journal/*.jsonl``. The
ledger, ``index.npz`` and ``results.zarr`` are derived from the journal. A store also contains a
lease, which locks the store for one run, and the arrays named under the experiment's ``keep``.
"""
