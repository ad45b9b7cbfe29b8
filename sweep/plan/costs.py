"""What a solve is expected to take, before anything is solved."""

import math
from functools import lru_cache

import solvers
import workloads
from solvers import Work
from sweep.experiment.canonical import digest
from sweep.grid.cells import MechanismSpec, Spec
from workloads import QueryGraph, Workload

SECONDS_PER_FLOP = 1e-10
"""At about ten gigaflops a second: one core of today. ``sweep plan`` measures its own."""

CERTIFIER = MechanismSpec("optimal")
"""What a certificate costs at most."""

_KEPT_WORKLOADS = 8


class Costs:
    """Shapes of workloads and the work of solves, each found once.

    A workload is built for it, and dropped: an operator in most families. Seeds do not change
    a cost, so replicates are looked at once.

    Parameters
    ----------
    time_limit : float, optional
        Seconds for one solve, for mechanisms that take a limit and were given none.
    """

    def __init__(self, time_limit: float | None = None) -> None:
        self.time_limit = time_limit
        self._shapes: dict[str, tuple[int, int]] = {}
        self._works: dict[tuple[str, str], Work] = {}
        self._specs: dict[str, Spec] = {}
        self._workload = lru_cache(maxsize=_KEPT_WORKLOADS)(self._made)

    def shape(self, spec: Spec) -> tuple[int, int]:
        """(m, d) of a workload; both are the number of answers for a query graph.

        Raises
        ------
        WorkloadError
            If it cannot be built.
        """
        key = self._key(spec)
        if key not in self._shapes:
            made = self._workload(key)
            self._shapes[key] = (int(made.m), int(made.d))
        return self._shapes[key]

    def work(self, mechanism: MechanismSpec, spec: Spec) -> Work:
        """The work of one solve, infinite where it cannot be said in a float.

        Raises
        ------
        WorkloadError
            If the workload cannot be built.
        """
        key = (digest(mechanism.content()), self._key(spec))
        if key not in self._works:
            self._works[key] = _work(mechanism, self._workload(key[1]))
        return self._works[key]

    def _key(self, spec: Spec) -> str:
        params = {name: value for name, value in spec.params.items() if name != "seed"}
        key = digest([spec.name, params])
        self._specs.setdefault(key, spec)
        return key

    def _made(self, key: str) -> Workload | QueryGraph:
        spec = self._specs[key]
        return workloads.make(spec.name, **spec.params)


def _work(mechanism: MechanismSpec, workload: Workload | QueryGraph) -> Work:
    try:
        return solvers.expected_work(mechanism.name, workload, mechanism.options)
    except OverflowError:
        return Work(flops=math.inf, bytes=math.inf)
