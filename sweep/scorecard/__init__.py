"""Verdicts on the numbers and claims of papers.

In: datasets, and what their experiments are compared with. Out: a verdict for every number and
claim, the scorecard of all of them, and its pages.
"""
