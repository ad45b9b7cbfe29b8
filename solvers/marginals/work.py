"""What a solve on marginals is expected to take, fitted to measured solves."""

from solvers.marginals.forms import FORMS
from solvers.marginals.system import LARGEST_FACTORISED
from solvers.method import Work
from workloads import QueryGraph, Workload
from workloads.operators import Marginals

_FLOPS = {"optimal": 8e3, "SM-II": 11e3, "IP": 2e3, "GM": 2e3}
_CLOSED_FORM_FLOPS = 3e3
_LEAST_FLOPS = 1e7
_BYTES = 300.0


def expected_work(name: str, workload: Workload | QueryGraph) -> Work | None:
    """The work of a method on marginals with one target for each of them.

    The measure is the number of pairs of a marginal and a subset of it, whatever the domain.

    Parameters
    ----------
    name : str
        The method's name.
    workload : Workload or QueryGraph
        What is asked.

    Returns
    -------
    Work or None
        None where the workload is not made of marginals, or the method has no form.
    """
    if not isinstance(workload, Workload) or not isinstance(workload.operator, Marginals):
        return None
    if name not in FORMS:
        return None
    subsets = workload.operator.subsets
    pairs = sum(2 ** len(subset) for subset in subsets)
    dense = min(len(subsets), LARGEST_FACTORISED) ** 2
    flops = _LEAST_FLOPS + _FLOPS.get(name, _CLOSED_FORM_FLOPS) * pairs
    return Work(flops=flops, bytes=_BYTES * pairs + 16.0 * dense)
