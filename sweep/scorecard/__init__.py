"""Verdicts on the numbers and claims of papers.

Input: datasets, and the numbers and claims that their experiments quote from papers. Output: a
verdict on every printed number (`numbers`) and claim (`claims`), the scorecard of all verdicts
(`card`), and its pages (`page`).
"""
