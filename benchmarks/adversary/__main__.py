"""Draws hard problems for a given time, solves them with every mechanism and checks the answers.

Run: ``python -m benchmarks.adversary --minutes 60``. A finding is an answer that fails a check; it
is printed with the seed of its problem, which ``--case SEED`` examines again. The exit code is 1 if
there was a finding. At the end, or when it is interrupted, the program prints the worst value of
every measured number.
"""

import argparse
import secrets
import signal
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

from threadpoolctl import threadpool_limits

from benchmarks.adversary.attempts import examine
from benchmarks.adversary.checks import Measured
from benchmarks.adversary.problems import Case, draw


@dataclass
class Tally:
    """The results of all problems so far: counts, and the worst value of each measured number."""

    problems: int = 0
    measured: Counter[str] = field(default_factory=Counter)
    worst: dict[str, tuple[Measured, int]] = field(default_factory=dict)
    findings: int = 0

    def add(self, case: Case, measured: list[Measured]) -> None:
        """Add a problem and the numbers that were measured on its answers."""
        self.problems += 1
        for one in measured:
            self.measured[one.name] += 1
            self.findings += one.wrong
            kept = self.worst.get(one.name)
            if kept is None or not one.value <= kept[0].value:
                self.worst[one.name] = one, case.seed

    def report(self, seconds: float) -> str:
        """Return a table of the measured numbers, preceded and followed by a line of totals."""
        rows = [
            f"{name:44} {self.measured[name]:8} {worst.value:10.1e} {worst.allowed:8.0e}  {seed}"
            for name, (worst, seed) in sorted(self.worst.items())
        ]
        return "\n".join(
            [
                f"{self.problems} problems in {seconds:.0f} s",
                f"{'measured':44} {'times':>8} {'worst':>10} {'allowed':>8}  of seed",
                *rows,
                f"{self.findings} findings",
            ]
        )


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m benchmarks.adversary", description=__doc__)
    options.add_argument("--minutes", type=float, default=60.0, help="how long to run")
    options.add_argument("--seed", type=int, help="seed of the first problem; random by default")
    options.add_argument("--case", type=int, help="examine only the problem with this seed")
    chosen = options.parse_args()
    drawn = secrets.randbelow(10**6) * 10**6 if chosen.seed is None else chosen.seed
    first, last = (drawn, None) if chosen.case is None else (chosen.case, chosen.case)
    started, tally, seed = time.monotonic(), Tally(), first
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with threadpool_limits(limits=1), suppress(KeyboardInterrupt):
        while time.monotonic() < started + 60 * chosen.minutes and (last is None or seed <= last):
            case = draw(seed)
            measured = examine(case)
            tally.add(case, measured)
            for line in findings(case, measured):
                print(line, flush=True)
            seed += 1
    print(tally.report(time.monotonic() - started))
    return int(tally.findings > 0)


def findings(case: Case, measured: list[Measured]) -> list[str]:
    """Return a line of text for each finding."""
    m, d = case.workload.shape
    where = f"--case {case.seed} ({', '.join(case.kinds)}, {m} x {d})"
    return [
        f"{where}: {found.name} {found.value:.3e}, allowed {found.allowed:.0e}: {found.of}"
        for found in measured
        if found.wrong
    ]


if __name__ == "__main__":
    sys.exit(main())
