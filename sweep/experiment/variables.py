"""Long names and units of the dataset's variables and coordinates."""

from collections.abc import Mapping

MEANINGS: Mapping[str, str] = {
    "squared_privacy_cost": "squared privacy cost at which all targets are just met",
    "privacy_cost": "privacy cost at which all targets are just met",
    "variance_ratio": "largest variance over target at the privacy cost of the reference mechanism",
    "lower_bound": "certified lower bound on the squared privacy cost of any linear mechanism",
    "gap": "squared privacy cost over its certified lower bound, less one",
    "epsilon_at_targets": "least epsilon at which all targets are met",
    "delta_at_targets": "least delta at which all targets are met, of Gaussian mechanisms",
    "variance_ratio_at_budget": "largest variance over target at a budget of epsilon and delta",
    "average_squared_error_at_budget": "mean query variance at a budget of epsilon and delta",
    "average_squared_error_at_classical_budget": (
        "mean query variance at the privacy cost epsilon / sqrt(2 ln(2 / delta)) of KDD'16"
    ),
    "average_squared_error_deviation": "standard error of the average squared error over the draws",
    "buckets": "mean number of buckets of the data-dependent partition",
    "query_count": "number of queries",
    "domain_size": "number of domain cells",
    "pure_epsilon": "least epsilon that meets all targets at delta zero, by plain composition",
    "variance_ratio_at_pure_budget": "largest variance over target at epsilon and a delta of zero",
    "total_variance": "sum of the query variances at the privacy cost of the reference mechanism",
    "total_variance_at_unit_cost": "sum of the query variances at squared privacy cost 1",
    "total_variance_ratio": "total variance over that of CA",
    "runtime_s": "wall-clock time of the solve alone",
    "cpu_s": "processor time of the solve alone",
    "objective_rise": "largest ratio of the objective after an iteration to that before",
    "gradient_rise": "largest ratio of the gradient's norm after an iteration to that before",
    "iterations": "outer iterations of the solve",
    "converged": "whether the mechanism reached its own stopping rule",
    "peak_memory_bytes": "rise of resident memory during the solve",
    "status": "state of the cell",
    "host": "machine that solved the cell",
    "started": "when the solve started",
    "attempt": "number of the attempt; attempts lost with their worker do not count",
    "error": "last line of the error",
    "code": "hash of the code that solved the cell",
    "versions": "versions of Python, numpy and scipy that solved the cell",
    "cell": "identity of the cell",
    "solve": "key of the solve that serves the cell, and name of its arrays",
    "utility": "expected gain of the optimal remap under the binary gain function",
    "utility_bound": "upper bound on the utility",
    "min_entropy_leakage": "min-entropy leakage",
    "leakage_bound": "upper bound on the min-entropy leakage",
    "leakage_bound_any_prior": "upper bound on the min-entropy leakage of every prior",
    "prior_is_regular": "whether the prior is epsilon-regular",
    "regular_share": "share of the priors that are epsilon-regular, by volume",
    "least_epsilon": "least epsilon for which a tight-constraints mechanism exists",
    "expected_squared_error": "expected squared error",
    "max_variance": "largest variance over the answers",
    "fisher_information": "trace of the data's Fisher information when all targets are just met",
    "cramer_rao_bound": "least total squared error of an unbiased estimate within the row space",
    "cramer_rao_ratio": "Cramér-Rao bound over total variance",
    "noise_entropy": "differential entropy of the noise on a single query",
    "empirical_variance_ratio": "largest variance of the simulated noise over target",
    "delta": "delta of the privacy guarantee",
    "epsilon": "epsilon of the privacy guarantee",
    "mechanism": "mechanism",
    "neighbours": "which databases are neighbours",
    "replicate": "repetition",
    "d": "number of domain cells",
    "m": "number of queries",
}
"""The long name of every variable and coordinate that the sweep itself creates."""

UNITS: Mapping[str, str] = {
    "runtime_s": "s",
    "cpu_s": "s",
    "peak_memory_bytes": "byte",
    "min_entropy_leakage": "bit",
    "leakage_bound": "bit",
    "leakage_bound_any_prior": "bit",
    "noise_entropy": "bit",
}
"""The units of the variables that are not dimensionless."""

OF_REFERENCE = ("variance_ratio", "total_variance")
"""The variables that are measured at the privacy cost of the reference mechanism."""

BUDGETS: Mapping[str, tuple[str, ...]] = {
    "epsilon_at_targets": ("delta",),
    "delta_at_targets": ("epsilon",),
    "variance_ratio_at_budget": ("epsilon", "delta"),
    "average_squared_error_at_budget": ("epsilon", "delta"),
    "average_squared_error_at_classical_budget": ("epsilon", "delta"),
    "variance_ratio_at_pure_budget": ("epsilon",),
}
"""The variables that depend on the budget, each with its budget coordinates: ε, δ or both."""


def describe(name: str) -> dict[str, str]:
    """Return the attributes ``long_name`` and ``units`` of a variable or coordinate.

    The ``long_name`` of an unknown variable is its name, with spaces in place of underscores. A
    dimensionless variable has empty units, because xarray would label every axis "[1]" if its units
    were 1.
    """
    long_name = MEANINGS.get(name, name.replace("_", " "))
    if name == "started":  # xarray stores the units of times in their encoding
        return {"long_name": long_name}
    return {"long_name": long_name, "units": UNITS.get(name, "")}


RESERVED = ({*MEANINGS} - {"d", "m", "delta", "epsilon"}) | {"group", "targets", "workload"}
"""Names that no parameter may have, because they have a meaning in the dataset or its tables."""
