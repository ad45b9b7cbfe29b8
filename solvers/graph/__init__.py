"""Mechanisms on query graphs: noise matrices of finite queries (POST 2013)."""
