"""Figures.

In: datasets, kept arrays, declared figures. Out: pictures as plain data, and files.
"""
