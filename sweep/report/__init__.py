"""What is shown to people.

In: datasets, plans, states and events. Out: tables, progress and lists on a terminal. Nothing is
computed here but means over replicates.
"""
