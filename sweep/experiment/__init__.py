"""Experiment files: parsing, ``--set`` changes and validation.

Input: the text of a YAML file and the ``--set`` changes. Output: an `Experiment` with valid keys
and types. It records the line of every value, for later error messages.
"""
