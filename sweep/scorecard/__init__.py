"""Verdicts on the numbers and claims of papers.

Input: datasets, and the numbers and claims that their experiments quote from papers. Output: a
verdict on every printed number (`numbers`) and every claim (`claims`), the scorecard with all
verdicts (`card`), and the pages that display it (`page`).
"""
