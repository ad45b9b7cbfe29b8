"""Output for people.

In: datasets, plans, states and events. Out: tables, progress and lists on a terminal; tables for
other documents, figures, pages. Only means over replicates are computed here.
"""
