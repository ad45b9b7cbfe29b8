"""Numbers of a dataset as they are shown, label by label.

In: datasets. Out: data frames, and tables as data.
"""
