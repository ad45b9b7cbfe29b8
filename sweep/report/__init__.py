"""Output for readers.

Input: datasets, plans, states and events. Output: tables, progress and lists on a terminal; tables
for other documents, figures and pages. Only means over replicates are computed here.
"""
