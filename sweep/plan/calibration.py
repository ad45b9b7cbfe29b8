"""How far solves are from the work that their mechanisms declare, measured on one machine.

A mechanism declares its work in floating-point operations, as a function of the workload's shape
(``Mechanism.work``). Their true price differs: eigendecompositions are slower than matrix
products, and the number of iterations varies. ``make calibrate`` (``benchmarks/calibrate.py``)
solves a few workloads by every mechanism on one thread and writes the factors, with the machine
and the date of the measurement, beside this module. A mechanism that was never measured has
factor 1.
"""

import json
import statistics
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import solvers
import workloads

FILE = Path(__file__).with_name("calibration.json")

_WORKLOADS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("prefix", {"d": 128}),
    ("range", {"d": 64}),
    ("range", {"d": 128}),
    ("all-range", {"d": 32}),
    ("random", {"d": 64}),
    ("wrelated", {"d": 128}),
)
_MARGINALS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("marginals", {"attributes": 3, "values": 16, "orders": [1, 2]}),
    ("marginals", {"attributes": 30, "values": 6, "orders": [3]}),
)
"""For mechanisms that solve nothing else."""
_LONGEST_SECONDS = 5.0
_SHORTEST_SECONDS = 2e-3


@dataclass(frozen=True)
class Calibration:
    """Measured over declared work, by mechanism.

    Attributes
    ----------
    machine, date, revision : str
        The processor, the day and the git revision of the measurement.
    factors : Mapping[str, float]
        CPU seconds of a solve over those of its declared work in matrix products.
    """

    machine: str = "none"
    date: str = "never"
    revision: str = "none"
    factors: Mapping[str, float] = field(default_factory=dict)

    def factor(self, mechanism: str) -> float:
        """Of one mechanism; 1 if it was never measured."""
        return self.factors.get(mechanism, 1.0)


@cache
def calibration() -> Calibration:
    """The one that ships with this version."""
    return Calibration(**json.loads(FILE.read_text(encoding="utf-8")))


def measured(seconds_per_flop: float, names: Collection[str] = ()) -> dict[str, float]:
    """The factor of every mechanism that solves query matrices, measured now.

    Parameters
    ----------
    seconds_per_flop : float
        Of a matrix product, on one thread of this machine.
    names : collection of str
        Of the mechanisms; all if empty.

    Returns
    -------
    dict of str to float
        Medians over the workloads; mechanisms that solve none of them in time are left out.
    """
    return {
        name: statistics.median(ratios)
        for name, mechanism in solvers.all_mechanisms().items()
        if "matrix" in mechanism.asks and (not names or name in names)
        for ratios in [_ratios(mechanism, seconds_per_flop)]
        if ratios
    }


def _ratios(mechanism: solvers.Mechanism, seconds_per_flop: float) -> list[float]:
    solved = [*_solved(mechanism, _WORKLOADS)] or [*_solved(mechanism, _MARGINALS)]
    return [
        seconds / (declared * seconds_per_flop)
        for seconds, declared in solved
        if seconds >= _SHORTEST_SECONDS
    ]


def _solved(
    mechanism: solvers.Mechanism, made: Sequence[tuple[str, dict[str, Any]]]
) -> Iterator[tuple[float, float]]:
    """CPU seconds and declared operations of the workloads that it solves in time."""
    limit: dict[str, Any] = (
        {"time_limit": _LONGEST_SECONDS} if "time_limit" in mechanism.options else {}
    )
    for family, params in made:
        workload = workloads.make(family, **params)
        started = time.process_time()
        try:
            solution = solvers.solve(mechanism.name, workload, **limit)
        except solvers.SolverError:
            continue
        seconds = time.process_time() - started
        if solution.converged:
            yield seconds, solvers.expected_work(mechanism.name, workload).flops
