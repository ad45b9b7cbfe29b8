"""Output for readers.

In: datasets, plans, states and events. Out: tables, progress and lists on a terminal; tables for
other documents, figures and pages. Only means over replicates are computed here.
"""
