"""The report of a store as one HTML file.

In: a store. Out: a page.
"""
