"""Runs and reruns an experiment, and records its results in a store.

Input: an experiment, a store and a cluster. Output: a store whose journal and dataset are complete.
This package starts the cluster, sends the tasks of `sweep.plan`, collects their outcomes, repeats
tasks that are lost with a worker or the scheduler, and sends events to its listeners.

(This package is not called ``run``, because the name `sweep.run` belongs to a function.)
"""
