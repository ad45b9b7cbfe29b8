"""The Dask cluster of a run.

Input: a ``cluster.yaml``, or the address of a scheduler. Output: a client of a cluster that is
closed to other users. The package also watches the workers and replaces those that end.
"""
