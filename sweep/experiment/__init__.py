"""Experiments as written.

In: the text of a YAML file and the settings of ``--set``. Out: an `Experiment`, checked for form,
which knows the line of every value, for the error messages of the folders that follow.
"""
