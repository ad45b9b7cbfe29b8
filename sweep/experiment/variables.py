"""The meaning of every variable of the dataset: its long name and units."""

from collections.abc import Mapping

MEANINGS: Mapping[str, tuple[str, str]] = {
    "squared_privacy_cost": ("squared privacy cost at which all targets are just met", "1"),
    "privacy_cost": ("privacy cost at which all targets are just met", "1"),
    "variance_ratio": (
        "largest ratio of variance to target at the privacy cost of the reference mechanism",
        "1",
    ),
    "lower_bound": (
        "certified lower bound on the squared privacy cost over all linear query mechanisms",
        "1",
    ),
    "gap": ("squared privacy cost over its certified lower bound, less one", "1"),
    "epsilon_at_targets": ("least epsilon at which all targets are met", "1"),
    "delta_at_targets": (
        "least delta at which all targets are met, of Gaussian mechanisms",
        "1",
    ),
    "variance_ratio_at_budget": (
        "largest ratio of variance to target at a budget of epsilon and delta",
        "1",
    ),
    "average_squared_error_at_budget": (
        "mean over the queries of their variance at a budget of epsilon and delta",
        "1",
    ),
    "average_squared_error_at_classical_budget": (
        "mean over the queries of their variance, Gaussian noise calibrated by the privacy cost "
        "epsilon / sqrt(2 ln(2 / delta)) of KDD'16",
        "1",
    ),
    "average_squared_error_deviation": (
        "standard error of the average squared error, over the draws of its mechanism",
        "1",
    ),
    "buckets": ("mean number of buckets of the data-dependent partition", "1"),
    "query_count": ("number of queries", "1"),
    "domain_size": ("number of domain cells", "1"),
    "pure_epsilon": (
        "least epsilon at which all targets are met with a delta of zero, by plain composition",
        "1",
    ),
    "variance_ratio_at_pure_budget": (
        "largest ratio of variance to target at a budget of epsilon and a delta of zero",
        "1",
    ),
    "total_variance": (
        "sum of the query variances at the privacy cost of the reference mechanism",
        "1",
    ),
    "total_variance_at_unit_cost": ("sum of the query variances at squared privacy cost 1", "1"),
    "total_variance_ratio": ("total variance over that of CA", "1"),
    "runtime_s": ("wall-clock time of the solve alone", "s"),
    "cpu_s": ("processor time of the solve alone", "s"),
    "objective_rise": ("largest ratio of the objective after an iteration to that before", "1"),
    "gradient_rise": (
        "largest ratio of the gradient's norm after an iteration to that before",
        "1",
    ),
    "iterations": ("outer iterations of the solve", "1"),
    "converged": ("whether the mechanism reached its own stopping rule", "1"),
    "peak_memory_bytes": ("rise of resident memory during the solve", "byte"),
    "status": ("state of the cell", "1"),
    "host": ("machine that solved the cell", "1"),
    "started": ("when the solve started", ""),
    "attempt": ("number of the attempt; attempts lost with their worker do not count", "1"),
    "error": ("last line of the error", "1"),
    "code": ("hash of the code that solved the cell", "1"),
    "versions": ("versions of Python, numpy and scipy that solved the cell", "1"),
    "cell": ("identity of the cell", "1"),
    "solve": ("key of the solve that serves the cell: its arrays' folder", "1"),
    "utility": ("expected gain of the optimal remap under the binary gain function", "1"),
    "utility_bound": ("upper bound on the utility", "1"),
    "min_entropy_leakage": ("min-entropy leakage", "bit"),
    "leakage_bound": ("upper bound on the min-entropy leakage", "bit"),
    "leakage_bound_any_prior": ("upper bound on the min-entropy leakage of every prior", "bit"),
    "prior_is_regular": ("whether the prior is epsilon-regular", "1"),
    "regular_share": ("share of the priors that are epsilon-regular, by volume", "1"),
    "least_epsilon": ("least epsilon for which a tight-constraints mechanism exists", "1"),
    "expected_squared_error": ("expected squared error", "1"),
    "max_variance": ("largest variance over the answers", "1"),
    "fisher_information": (
        "trace of the Fisher information about the data when the targets are just met",
        "1",
    ),
    "cramer_rao_bound": (
        "least total squared error of an unbiased estimate of what the answers tell of the data",
        "1",
    ),
    "cramer_rao_ratio": ("Cramér-Rao bound over total variance", "1"),
    "noise_entropy": ("differential entropy of the noise on a single query", "bit"),
    "empirical_variance_ratio": (
        "largest ratio of the variance of the simulated noise to the target",
        "1",
    ),
    "delta": ("delta of the privacy guarantee", "1"),
    "epsilon": ("epsilon of the privacy guarantee", "1"),
    "mechanism": ("mechanism", "1"),
    "neighbours": ("which databases are neighbours", "1"),
    "replicate": ("repetition", "1"),
    "d": ("number of domain cells", "1"),
    "m": ("number of queries", "1"),
}
"""Long name and units of every variable and coordinate that the sweep itself makes."""

OF_REFERENCE = ("variance_ratio", "total_variance")
"""The variables that refer to the reference mechanism."""

BUDGETS: Mapping[str, tuple[str, ...]] = {
    "epsilon_at_targets": ("delta",),
    "delta_at_targets": ("epsilon",),
    "variance_ratio_at_budget": ("epsilon", "delta"),
    "average_squared_error_at_budget": ("epsilon", "delta"),
    "average_squared_error_at_classical_budget": ("epsilon", "delta"),
    "variance_ratio_at_pure_budget": ("epsilon",),
}
"""The variables that have a value for every budget, and their dimensions for it."""


def described(name: str) -> dict[str, str]:
    """``long_name`` and ``units`` of a variable or coordinate; its name in words if unknown.

    Units are empty for plain numbers: xarray would write "[1]" at every axis. Those of instants
    are their encoding's.
    """
    long_name, units = MEANINGS.get(name, (name.replace("_", " "), "1"))
    if not units:
        return {"long_name": long_name}
    return {"long_name": long_name, "units": "" if units == "1" else units}


_SHARED = ("d", "m", "delta", "epsilon")
"""Coordinates that parameters of workloads may become."""


def is_reserved(name: str) -> bool:
    """Whether the dataset or its tables use that name for something else."""
    return (name in MEANINGS and name not in _SHARED) or name in ("group", "targets", "workload")
