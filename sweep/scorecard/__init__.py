"""Verdicts on the numbers and claims of papers.

Input: datasets, and what their experiments are compared with. Output: a verdict for every printed
number (`numbers`) and claim (`claims`), the scorecard of all of them (`card`), and its pages.
"""
