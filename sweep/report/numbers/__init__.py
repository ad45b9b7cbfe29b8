"""Numbers of a dataset as tables show them, by label.

In: datasets. Out: data frames, and tables as data.
"""
