"""The Dask cluster of a run.

Input: a ``cluster.yaml``, or the address of a scheduler. Output: a client of the cluster, which is
closed to others, and workers that are watched and replaced.
"""
