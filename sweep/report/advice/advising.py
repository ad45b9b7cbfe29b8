"""Advice on a user's queries: read, computed, and put into words."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import workloads
from solvers.advice import Advice
from solvers.advice import advise as advise_on
from solvers.neighbours import Written
from workloads.queries import Domain, domain_of, read_domain, usual_queries

MOST_FURTHER = 2000
"""Of more usual queries none is looked at."""


def advise(
    queries: Any,
    domain: Any,
    *,
    delta: float,
    epsilon: float | None = None,
    mechanisms: Sequence[str] | None = None,
    time_limit: float = 30.0,
    neighbours: Written = "add-remove",
    told: Callable[[str], None] = lambda said: None,
) -> Advice:
    """What queries and targets cost, what each target costs, and what comes for free.

    Parameters
    ----------
    queries : str, pathlib.Path or pandas.DataFrame
        A CSV file, or a table, with a query in each row.
    domain : str, pathlib.Path or mapping
        A YAML file, or a mapping, with the values of each attribute.
    delta, epsilon, mechanisms, time_limit, neighbours, told
        As for `solvers.advice.advise`.

    Raises
    ------
    WorkloadError
        If the queries or the domain are not valid; with file, line and column.
    SolverError
        As `solvers.advice.advise`.
    """
    in_file = isinstance(domain, str | Path)
    known: Domain = read_domain(str(domain)) if in_file else domain_of(domain)
    if isinstance(queries, str | Path):
        workload = workloads.read_queries(str(queries), known)
    else:
        workload = workloads.from_queries(queries, known)
    further = usual_queries(known) if sum(known.sizes) <= MOST_FURTHER else None
    return advise_on(
        workload,
        delta=delta,
        epsilon=epsilon,
        mechanisms=mechanisms,
        further=further,
        time_limit=time_limit,
        neighbours=neighbours,
        told=told,
    )
