"""What is asked: query matrices, query graphs and variance targets."""

from workloads.errors import TargetsError, WorkloadError
from workloads.workload import Workload, from_matrix

__all__ = ["TargetsError", "Workload", "WorkloadError", "from_matrix"]
