"""Reports for readers, on a terminal and in files.

Input: datasets, plans, states and events. Output: tables, progress and lists on a terminal; tables
for other documents, figures and pages. No results are computed here, except means and spreads over
replicates and their ratios to published numbers. This package also contains what Python users
meet: the accessor of datasets, and the engine with which xarray opens a store.
"""
