"""Output for readers.

In: datasets, plans, states and events. Out: tables, progress and lists on a terminal; tables for
other documents, figures, pages, and the scorecard. Only means over replicates and verdicts are
computed here.
"""
