"""Runs and reruns of an experiment in a store.

In: an experiment, a store and a cluster. Out: a store whose journal and dataset are complete.
Starts the cluster, sends the tasks of `sweep.plan`, takes in what comes back, tries again what the
infrastructure loses, and tells its listeners what happens.

(Not called ``run``: that name is the function `sweep.run`.)
"""
