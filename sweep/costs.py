"""What a solve is expected to take, from the shape of its workload alone."""

import math
from collections.abc import Callable
from functools import cache

import solvers
import workloads
from solvers import Work
from sweep.cells import MethodSpec, Spec, digest

SECONDS_PER_FLOP = 1e-10
"""At about ten gigaflops a second: one core of today. ``sweep plan`` measures its own."""

CERTIFIER = MethodSpec("optimal")
"""What a certificate costs at most."""


def shapes() -> Callable[[Spec], tuple[int, int]]:
    """A function that gives (m, d) of a workload; each shape is found once.

    Both are the number of answers for a query graph.

    The workload is built for it, and dropped: an operator in most families. Seeds do not
    change a shape, so replicates are built once.

    Returns
    -------
    callable
        Raises what `workloads.make` raises.
    """
    known: dict[str, tuple[int, int]] = {}

    def shape(spec: Spec) -> tuple[int, int]:
        params = {name: value for name, value in spec.params.items() if name != "seed"}
        key = digest([spec.name, params])
        if key not in known:
            made = workloads.make(spec.name, **spec.params)
            known[key] = (int(made.m), int(made.d))
        return known[key]

    return shape


def work(method: MethodSpec, shape: tuple[int, int]) -> Work:
    """The work of one solve, infinite where it cannot be said in a float."""
    try:
        return _method_work(method.name, *shape)
    except OverflowError:
        return Work(flops=math.inf, bytes=math.inf)


@cache
def _method_work(name: str, m: int, d: int) -> Work:
    return solvers.methods()[name].work(m, d)
