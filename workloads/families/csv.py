"""Queries in a CSV file, over a domain in a YAML file."""

from workloads.family import Family
from workloads.parameters import FilePath
from workloads.queries import read_queries
from workloads.workload import Workload


def build(queries: FilePath, domain: FilePath) -> Workload:
    """One query per row, with its label; the targets rule ``stated`` takes its targets."""
    return read_queries(queries, domain, names_files=False)


FAMILY = Family(
    "csv",
    "the queries in a CSV file, a row each, over the attributes in a YAML file",
    build,
)
