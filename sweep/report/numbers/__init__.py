"""What is shown of a dataset: tables of numbers and of texts, in every format.

In: datasets, experiments. Out: data frames, tables, LaTeX, Markdown, HTML, CSV, JSON.
"""
