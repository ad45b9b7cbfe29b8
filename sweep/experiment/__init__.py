"""Experiments as they are written in files.

Input: the text of a YAML file and the settings of ``--set``. Output: an `Experiment` whose form is
checked; it knows the line of every value, for later error messages.
"""
