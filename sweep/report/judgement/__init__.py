"""Verdicts on the numbers and claims of papers.

In: datasets, what experiments are compared with. Out: verdicts, the scorecard, its page.
"""
