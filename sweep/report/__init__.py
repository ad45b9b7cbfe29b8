"""Output for people.

In: datasets, plans, states and events. Out: tables, progress and lists on a terminal. Only means
over replicates are computed here.
"""
