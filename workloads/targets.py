"""Variance targets: made by a rule, and read by group.

They have shape (m,), or shape (number of groups,) for a workload with too many queries to list
(``Workload.listed`` is false).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from workloads.errors import TargetsError
from workloads.graphs import QueryGraph
from workloads.operators import Array
from workloads.parameters import bind, nearest
from workloads.rules import RULES, Rule, with_groups
from workloads.workload import Workload


def rules() -> Mapping[str, Rule]:
    """Every rule by name."""
    return MappingProxyType(RULES)


def make(rule: str, workload: Workload | QueryGraph, **params: Any) -> Array:
    """The variance targets of a workload by the named rule.

    Parameters
    ----------
    rule : str
        A name of `rules`.
    **params
        The rule's parameters; see ``rules()[rule].params``.

    Returns
    -------
    numpy.ndarray, shape (m,)
        Positive and finite; shape (number of groups,) if not ``workload.listed``.

    Raises
    ------
    TargetsError
        If the name or a parameter's name, type or value is wrong, or the rule does not
        suit the workload.
    """
    if rule not in RULES:
        raise TargetsError(f"no targets rule is called {rule!r}; {nearest(rule, RULES)}")
    bound = bind(f"targets rule {rule!r}", RULES[rule].params, params, TargetsError)
    targets: Array = RULES[rule].build(workload, **bound)
    bad = np.flatnonzero(~(np.isfinite(targets) & (targets > 0)))
    if bad.size:
        raise TargetsError(
            f"targets rule {rule!r} gives target {targets[bad[0]]} to query {bad[0]} (counted from "
            f"0) of workload {workload.name!r}; a variance bound must be positive and finite"
        )
    return targets


def by_group(workload: Workload, targets: Array) -> Array:
    """One target for each group, from targets that are constant within each group.

    Returns
    -------
    numpy.ndarray, shape (number of groups,)

    Raises
    ------
    TargetsError
        If the workload has no groups, or the targets of one group differ.
    """
    sizes = with_groups(workload, "targets by group").group_sizes
    groups = workload.groups
    if groups is None:
        return targets
    ordered = targets if np.all(groups[:-1] <= groups[1:]) else targets[np.argsort(groups)]
    first = np.cumsum([0, *sizes[:-1]])
    lowest, highest = np.minimum.reduceat(ordered, first), np.maximum.reduceat(ordered, first)
    uneven = np.flatnonzero(lowest < highest)
    if uneven.size:
        raise TargetsError(
            f"group {workload.group_names[uneven[0]]!r} of workload {workload.name!r} has targets "
            f"from {lowest[uneven[0]]:g} to {highest[uneven[0]]:g}; expected one for the group"
        )
    return lowest
