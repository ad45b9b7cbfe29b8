"""The faults of a chaos run: signals, mines, damage to the store, and competing commands."""

import random
import resource
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.chaos.house import Driver, House
from benchmarks.chaos.worker import MINES
from sweep.store.journal import SUFFIX

Undo = Callable[[], None]
SIGNALS = {
    "killed": signal.SIGKILL,
    "interrupted": signal.SIGINT,
    "terminated": signal.SIGTERM,
    "stopped": signal.SIGSTOP,
}
TO_PROCESSES = [
    *("driver killed", "driver interrupted", "driver terminated", "driver stopped"),
    *("worker killed", "worker stopped", "nanny killed", "nanny terminated"),
    *("scheduler killed", "scheduler terminated", "scheduler stopped"),
]
TO_SOLVES = ["raise", "exit", "interrupt", "unprintable", "segfault", "sigkill", "hold", "memory"]
TO_THE_STORE = ["segment changed", "segment cut", "chunk deleted", "dataset unwritable"]
OTHERS = ["disk full for a worker", "disk full for the driver", "two drivers"]
KINDS = [*TO_PROCESSES, *TO_SOLVES, *TO_THE_STORE, *OTHERS]


@dataclass
class Havoc:
    """Makes faults happen to the processes and the store of a chaos run, and ends them.

    Attributes
    ----------
    house : House
        The processes of the run.
    store : Path
        The store of the sweep.
    chance : random.Random
        The source of random numbers.
    damaged : dict of str to (float, float)
        For each damaged segment, by file name: when it got this name, and when it was damaged.
    """

    house: House
    store: Path
    chance: random.Random
    damaged: dict[str, tuple[float, float]] = field(default_factory=dict)
    seconds: list[Driver] = field(default_factory=list)
    _later: list[tuple[float, Undo]] = field(default_factory=list)
    _mines: int = 0

    def strike(self, kind: str) -> bool:
        """Make a fault of this kind happen; return False if it is impossible at the moment."""
        whom, _, what = kind.partition(" ")
        if kind in TO_PROCESSES:
            return self._signal(whom, SIGNALS[what])
        if kind in TO_SOLVES:
            return self._lay_mine(kind)
        if whom == "segment":
            return self._damage_segment(what)
        return {
            "chunk deleted": self._delete_chunk,
            "dataset unwritable": self._block_dataset,
            "disk full for a worker": lambda: self._fill_disk(self.house.workers),
            "disk full for the driver": lambda: self._fill_disk(self._processes("driver")),
            "two drivers": self._run_twice,
        }[kind]()

    def undo(self, everything: bool = False) -> None:
        """End the faults whose time is over."""
        now = time.monotonic()
        due = [undo for at, undo in self._later if everything or at <= now]
        self._later = [(at, undo) for at, undo in self._later if not everything and at > now]
        for undo in due:
            undo()

    def _processes(self, whom: str) -> list[psutil.Process]:
        house = self.house
        if whom == "driver":
            running = house.driver is not None and house.driver.process.poll() is None
            return [psutil.Process(house.driver.process.pid)] if running else []
        one = {"worker": house.workers, "nanny": house.nannies}
        return one.get(whom, [house.scheduler] if house.scheduler else [])

    def _signal(self, whom: str, number: signal.Signals) -> bool:
        if whom in ("nanny", "scheduler") and self.house.driver and self.house.driver.own_cluster:
            return False
        found = self._processes(whom)
        if not found:
            return False
        process = self.chance.choice(found)
        _send(process, number)
        if number is signal.SIGSTOP:
            self._in(self.chance.uniform(0.5, 8), lambda: _send(process, signal.SIGCONT))
        return True

    def _lay_mine(self, kind: str) -> bool:
        self._mines += 1
        (self.house.folder / MINES / f"{kind}-{self._mines}").touch()
        return True

    def _damage_segment(self, how: str) -> bool:
        there = sorted((self.store / "journal").glob(f"*{SUFFIX}"))
        sound = [p for p in there if p.name not in self.damaged and p.stat().st_size > 200]
        if not sound:
            return False
        path = self.chance.choice(sound)
        content = bytearray(path.read_bytes())
        at = self.chance.randrange(100, len(content) - 2)
        self.damaged[path.name] = (path.stat().st_ctime, time.time())
        shutil.copy2(path, self.house.folder / "sound" / path.name)
        if how == "cut":
            path.write_bytes(content[:at])
        else:
            content[at] ^= 1
            path.write_bytes(content)
        return True

    def _delete_chunk(self) -> bool:
        chunks = [p for p in (self.store / "results.zarr").rglob("*") if p.is_file()]
        if not chunks:
            return False
        self.chance.choice(sorted(chunks)).unlink(missing_ok=True)
        return True

    def _block_dataset(self) -> bool:
        versions, away = self.store / ".results", self.store / ".results-away"
        if not versions.is_dir() or away.exists():
            return False
        versions.rename(away)
        versions.touch()

        def put_back() -> None:
            if versions.is_file():
                versions.unlink()
            try:
                away.rename(versions)
            except OSError:  # a newer dataset has been written
                shutil.rmtree(away)

        self._in(self.chance.uniform(1, 8), put_back)
        return True

    def _fill_disk(self, processes: list[psutil.Process]) -> bool:
        """Make every write of one process to a file fail for some seconds, as on a full disk."""
        if not processes:
            return False
        process = self.chance.choice(processes)
        if not _limit_files(process, 0):
            return False
        self._in(self.chance.uniform(1, 6), lambda: _limit_files(process, resource.RLIM_INFINITY))
        return True

    def _run_twice(self) -> bool:
        if self.house.driver is None or not (self.store / "journal").is_dir():
            return False
        other = self.house.command(*self.house.driver.words)
        self._in(10, lambda: self._expect_refusal(other))
        return True

    def _expect_refusal(self, other: Driver) -> None:
        """Record a competing command for `Chaos` to judge; kill it if it is still running.

        It runs only if it got the store, because the first command had ended.
        """
        if other.process.poll() is None:
            other.process.kill()
            other.process.wait()
        self.seconds.append(other)

    def _in(self, seconds: float, undo: Undo) -> None:
        self._later.append((time.monotonic() + seconds, undo))


def _send(process: psutil.Process, number: signal.Signals) -> None:
    with suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def _limit_files(process: psutil.Process, most: int) -> bool:
    with suppress(ProcessLookupError, PermissionError):
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
        return True
    return False
