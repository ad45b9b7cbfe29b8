"""Workloads: query matrices, query graphs and variance targets."""

from workloads import targets
from workloads.errors import TargetsError, WorkloadError
from workloads.family import Family, make
from workloads.family import all_families as families
from workloads.given import from_factors, from_matrix
from workloads.graphs import QueryGraph
from workloads.queries import Domain, domain_of, from_queries
from workloads.workload import Workload

__all__ = [
    "Domain",
    "Family",
    "QueryGraph",
    "TargetsError",
    "Workload",
    "WorkloadError",
    "domain_of",
    "families",
    "from_factors",
    "from_matrix",
    "from_queries",
    "make",
    "targets",
]
