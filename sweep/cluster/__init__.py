"""The Dask cluster of a run.

In: a ``cluster.yaml``, or the address of a scheduler. Out: a client of it, closed to others, and
workers that are watched and requested again.
"""
