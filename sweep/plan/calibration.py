"""Measured over declared work of solves, on one machine.

A mechanism declares its work in floating-point operations, as a function of the workload's shape
(``Mechanism.work``). Their true price differs: eigendecompositions are slower than matrix
products, and the number of iterations varies. ``make calibrate`` (``benchmarks/calibrate.py``)
solves a few workloads by every mechanism on one thread and writes the factors, with the machine
and the date of the measurement, beside this module. A mechanism that was never measured has
factor 1.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("calibration.json")


@dataclass(frozen=True)
class Calibration:
    """CPU seconds of solves over those of their declared work in matrix products, by mechanism.

    With the processor, the day and the git revision of the measurement.
    """

    machine: str = "none"
    date: str = "never"
    revision: str = "none"
    factors: Mapping[str, float] = field(default_factory=dict)

    def factor(self, mechanism: str) -> float:
        """The factor of one mechanism; 1 if it was never measured."""
        return self.factors.get(mechanism, 1.0)


@cache
def calibration() -> Calibration:
    """The calibration that ships with this version."""
    return Calibration(**json.loads(FILE.read_text(encoding="utf-8")))
