"""The tables of a dataset: numbers beside the papers', with their verdicts.

In: datasets, experiments. Out: tables as data, for every format.
"""
