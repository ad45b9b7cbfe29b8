"""Variance targets: the rules that make them, and their reduction to one target per group.

Targets have shape (m,), one for each of the m queries. If a workload has too many queries to list
(``Workload.listed`` is false), they have shape (number of groups,). The random numbers of a rule
are independent of those of the workload, even if both have the same seed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated

import numpy as np

from workloads.errors import TargetsError, WorkloadError
from workloads.family import AnyWorkload
from workloads.given import load
from workloads.graphs import QueryGraph
from workloads.operators import Array
from workloads.parameters import Bounds, FilePath, Probability, Recipe, Seed, bind, nearest
from workloads.workload import Workload

_STREAM = 0x7A26E75
"""Makes the random numbers independent of those that a workload draws with the same seed."""
_LARGEST_INTEGER = 2**53
"""Above it, floats cannot represent every whole number."""


@dataclass(frozen=True)
class Rule(Recipe[Array]):
    """A rule that gives every query of a workload its variance target.

    Attributes
    ----------
    build : callable
        ``build(workload, **params)`` returns the targets; every parameter is annotated with its
        type.
    uniform : bool
        Whether the rule gives all queries the same target, whatever its parameters.
    by_group : bool
        Whether ``build`` returns one target for each group of queries.
    """

    uniform: bool = False
    by_group: bool = False


@Rule.of("uniform", uniform=True)
def _uniform(workload: AnyWorkload, /, value: float = 1.0) -> Array:
    """The same target for every query."""
    return np.full(workload.target_count, float(value))


@Rule.of("random-integer", source="inferred from PVLDB 14(10), Table 8; no text says integers")
def _random_integer(
    workload: AnyWorkload,
    /,
    low: int = 1,
    high: Annotated[int, Bounds(le=_LARGEST_INTEGER)] = 10,
    seed: Seed = 0,
) -> Array:
    """Whole numbers from low to high, all equally likely; for larger ones, take rule 'random'."""
    count = workload.target_count
    return _stream(seed).integers(low, high, size=count, endpoint=True).astype(float)


@Rule.of("random", source="arXiv v1, section 7.3")
def _random(
    workload: AnyWorkload, /, low: float = 1.0, high: float = 10.0, seed: Seed = 0
) -> Array:
    """Real numbers, uniform from low to high."""
    return _stream(seed).uniform(low, high, size=workload.target_count)


@Rule.of("random-by-group", by_group=True)
def _random_by_group(
    workload: Workload, /, low: float = 1.0, high: float = 10.0, seed: Seed = 0
) -> Array:
    """One real number, uniform from low to high, for each group of queries."""
    return _stream(seed).uniform(low, high, size=len(workload.group_names))


@Rule.of("important", source="arXiv v1, section 7.4")
def _important(
    workload: AnyWorkload,
    /,
    fraction: Probability = 0.1,
    low: float = 1.0,
    high: float = 3.0,
    other_low: float = 10.0,
    other_high: float = 15.0,
    seed: Seed = 0,
) -> Array:
    """In [low, high] for a random fraction of queries, in [other_low, other_high] for others."""
    stream, count = _stream(seed), workload.target_count
    targets = stream.uniform(other_low, other_high, size=count)
    chosen = stream.permutation(count)[: round(fraction * count)]
    targets[chosen] = stream.uniform(low, high, size=chosen.size)
    return targets


@Rule.of("important-integer", source="inferred from arXiv v1, Table 8; no text says integers")
def _important_integer(
    workload: AnyWorkload,
    /,
    fraction: Probability = 0.1,
    low: int = 1,
    high: int = 3,
    other_low: int = 10,
    other_high: int = 15,
    seed: Seed = 0,
) -> Array:
    """Like rule 'important', but with whole numbers; all numbers in a range are equally likely."""
    ends = {"low": low, "high": high + 1, "other_low": other_low, "other_high": other_high + 1}
    return np.floor(_important.build(workload, fraction=fraction, seed=seed, **ends))


@Rule.of("by-group", by_group=True, source="arXiv v1, sections 7.2 and 7.5")
def _by_group(workload: Workload, /, values: dict[str, float] | list[float]) -> Array:
    """One target for each group of queries, by the groups' names or in the groups' order."""
    names = workload.group_names
    if isinstance(values, Mapping):
        for name in values:
            if name not in names:
                raise TargetsError(
                    f"targets rule 'by-group': workload {workload.name!r} has no group {name!r}; "
                    f"{nearest(name, names)}",
                    "values",
                )
        values = [values[name] for name in names if name in values]
    if len(values) != len(names):
        raise TargetsError(
            f"targets rule 'by-group': {len(values)} targets for the {len(names)} groups of "
            f"workload {workload.name!r}; give one for each of: {', '.join(names)}",
            "values",
        )
    return np.asarray(values, dtype=np.float64)


@Rule.of("sequential", by_group=True, source="arXiv v1, section 7.6")
def _sequential(workload: Workload, /, first: float = 1.0, step: float = 1.0) -> Array:
    """One target for each group of queries: first, first + step, first + 2 step, and so on."""
    return np.asarray(first + step * np.arange(len(workload.group_names), dtype=np.float64))


@Rule.of("total", by_group=True, source="PVLDB 14(10), section 7.2")
def _total(workload: Workload, /, k: float, others: float = 1.0) -> Array:
    """Target k for the total, and the target ``others`` for every other query."""
    names = workload.group_names
    if "total" not in names:
        raise TargetsError(
            f"targets rule 'total': workload {workload.name!r} has no group 'total'; "
            "this rule is for 'identity-sum'"
        )
    return np.array([float(k if name == "total" else others) for name in names])


@Rule.of("stated")
def _stated(workload: AnyWorkload, /) -> Array:
    """The targets stated with the queries, as in the file of workload 'csv'."""
    if isinstance(workload, QueryGraph) or workload.stated is None:
        raise TargetsError(
            f"targets rule 'stated': workload {workload.name!r} has no stated targets; the rule is "
            "for 'csv', whose file states them"
        )
    return workload.stated.targets


@Rule.of("file")
def _file(workload: AnyWorkload, /, path: FilePath) -> Array:
    """The targets in a .npy file, one for each query."""
    try:
        bounds = load(path)
    except WorkloadError as error:
        raise TargetsError(f"targets {error}") from None
    if not isinstance(bounds, np.ndarray) or bounds.dtype.kind not in "iuf":
        raise TargetsError(
            f"targets file {path!r} is not an array of real numbers; write one with numpy.save"
        )
    if bounds.shape != (workload.target_count,):
        raise TargetsError(
            f"targets file {path!r} has shape {bounds.shape}; workload {workload.name!r} needs one "
            f"variance bound for each query, shape ({workload.target_count},)"
        )
    return bounds.astype(np.float64)


def with_groups(workload: AnyWorkload, rule: str) -> Workload:
    """Return the workload; raise TargetsError if it has no groups or is a query graph."""
    if isinstance(workload, QueryGraph) or not workload.group_names:
        raise TargetsError(
            f"targets rule {rule!r} needs groups of queries, and workload {workload.name!r} has "
            "none; use 'uniform', a random rule or 'file'"
        )
    return workload


def _stream(seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, _STREAM])


RULES: Mapping[str, Rule] = MappingProxyType(
    {rule.name: rule for rule in list(globals().values()) if isinstance(rule, Rule)}
)
"""All rules by name."""


def make(rule: str, workload: AnyWorkload, **params: object) -> Array:
    """Return the variance targets that the named rule gives to a workload.

    Parameters
    ----------
    rule : str
        A key of `RULES`.
    **params
        The rule's parameters; see ``RULES[rule].params``.

    Returns
    -------
    numpy.ndarray, shape (m,)
        Positive finite targets. The shape is (number of groups,) if ``workload.listed`` is false,
        and (1,) for a query graph.

    Raises
    ------
    TargetsError
        If the name or a parameter's name, type or value is wrong, or the rule does not apply to
        the workload.
    """
    if rule not in RULES:
        raise TargetsError(f"no targets rule is called {rule!r}; {nearest(rule, RULES)}")
    chosen = RULES[rule]
    bound = bind(f"targets rule {rule!r}", chosen.params, params, TargetsError)
    for low, high in (("low", "high"), ("other_low", "other_high")):
        if low in bound and not 0 < bound[low] <= bound[high] < np.inf:
            raise TargetsError(
                f"targets rule {rule!r}: {low} is {bound[low]} and {high} is {bound[high]}; "
                "expected 0 < low <= high",
                high if bound[low] == chosen.params[low].default else low,
            )
    asked = with_groups(workload, rule) if chosen.by_group else workload
    targets: Array = chosen.build(asked, **bound)
    if chosen.by_group and isinstance(asked, Workload) and asked.groups is not None:
        targets = targets[asked.groups]
    bad = np.flatnonzero(~(np.isfinite(targets) & (targets > 0)))
    if bad.size:
        raise TargetsError(
            f"targets rule {rule!r} gives target {targets[bad[0]]} to query {bad[0]} (counted from "
            f"0) of workload {workload.name!r}; a variance bound must be positive and finite"
        )
    return targets


def by_group(workload: Workload, targets: Array) -> Array:
    """Reduce targets that are constant within each group to one target for each group.

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
            f"from {lowest[uneven[0]]:g} to {highest[uneven[0]]:g}; expected one for its queries"
        )
    return lowest
