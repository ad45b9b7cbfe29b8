"""Reports for readers, on a terminal and in files.

Input: datasets, plans, states and events. Output: tables, progress and lists on a terminal; tables
for other documents, figures and pages. No results are computed here, except means and spreads over
replicates and their ratios to published numbers.
"""
