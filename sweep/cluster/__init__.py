"""The Dask cluster of a run.

Input: a ``cluster.yaml``, or the address of a scheduler. Output: a client of a cluster that other
users cannot use, and workers that are watched and replaced.
"""
