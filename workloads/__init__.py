"""Workloads: query matrices, query graphs and variance targets."""

from collections.abc import Mapping

from workloads import targets
from workloads.errors import TargetsError, WorkloadError
from workloads.family import Family, all_families, make
from workloads.graphs import QueryGraph
from workloads.workload import Workload, from_matrix

__all__ = [
    "Family",
    "QueryGraph",
    "TargetsError",
    "Workload",
    "WorkloadError",
    "families",
    "from_matrix",
    "make",
    "targets",
]


def families() -> Mapping[str, Family]:
    """Every workload family by name."""
    return all_families()
