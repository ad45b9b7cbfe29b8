"""What a solve on marginals is expected to take, fitted to measured solves."""

from collections.abc import Mapping
from typing import Any

from solvers.marginals.forms import FORMS
from solvers.mechanism import Mechanism, Work
from solvers.optimiser.low_rank_system import LARGEST_FACTORISED
from workloads import QueryGraph, Workload
from workloads.operators import Marginals

_FLOPS = {"optimal": 8e3, "SM-II": 11e3, "IP": 2e3, "GM": 2e3}
_CLOSED_FORM_FLOPS = 3e3
_LEAST_FLOPS = 1e7
_BYTES = 300.0


def expected_work(
    mechanism: Mechanism, workload: Workload | QueryGraph, options: Mapping[str, Any]
) -> Work | None:
    """The work of a mechanism on marginals with one target for each of them.

    The measure is the number of pairs of a marginal and a subset of it, whatever the domain.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism asked for.
    workload : Workload or QueryGraph
        What is asked.
    options : Mapping[str, object]
        Options of the solve; those that are left out have their defaults.

    Returns
    -------
    Work or None
        None where the workload is not made of marginals, the mechanism has no form, or an option
        needs the query matrix.
    """
    if not isinstance(workload, Workload) or not isinstance(workload.operator, Marginals):
        return None
    form = FORMS.get(mechanism.name)
    if form is None or form.obstacle(mechanism, options) is not None:
        return None
    subsets = workload.operator.subsets
    pairs = sum(2 ** len(subset) for subset in subsets)
    dense = min(len(subsets), LARGEST_FACTORISED) ** 2
    flops = _LEAST_FLOPS + _FLOPS.get(mechanism.name, _CLOSED_FORM_FLOPS) * pairs
    return Work(flops=flops, bytes=_BYTES * pairs + 16.0 * dense)
