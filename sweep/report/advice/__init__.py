"""Advice on a user's queries and targets.

In: queries, a domain. Out: sentences, tables, a page.
"""
