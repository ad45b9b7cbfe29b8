"""Queries as users write them: a domain of named attributes, and a table of queries.

`domain` reads the attributes and their values, `table` reads the rows of a file or data frame and
their targets, `rows` turns each row into queries, and `build` makes the workload.
"""

from workloads.queries.build import from_queries, usual_queries
from workloads.queries.domain import Domain, domain_of

__all__ = [
    "Domain",
    "domain_of",
    "from_queries",
    "usual_queries",
]
