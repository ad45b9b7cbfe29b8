"""Runs and reruns of an experiment in a store.

In: an experiment, a store and a cluster. Out: a store whose journal and dataset are complete.
Starts the cluster, sends the tasks of `sweep.plan`, collects their outcomes, retries tasks that the
infrastructure loses, and sends events to its listeners.

(Not called ``run``: that name is the function `sweep.run`.)
"""
