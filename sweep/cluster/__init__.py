"""The Dask cluster of a run.

Input: a ``cluster.yaml``, or the address of a scheduler. Output: a client of the cluster. A
scheduler that other machines can reach must ask for a key, unless ``insecure: true`` is given. The
package also watches the workers and replaces those that end.
"""
