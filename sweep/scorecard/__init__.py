"""Verdicts on the numbers and claims of papers.

Input: datasets, and what their experiments are compared with. Output: a verdict for every number
and claim, the scorecard of all of them, and its pages.
"""
