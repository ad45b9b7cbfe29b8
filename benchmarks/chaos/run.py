"""A chaos run: a sweep during which faults occur, repeated until it is complete."""

import random
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import sweep
from benchmarks.chaos import havoc, judge
from benchmarks.chaos.house import Driver, House
from benchmarks.chaos.worker import MINES, PAUSE, SLOW
from sweep.state.stored import load_stored, select_troubled, select_unfinished
from sweep.store.journal import DAMAGED, SUFFIX, Journal
from sweep.store.ledger import MAX_WORKER_DEATHS
from sweep.store.paths import locate
from sweep.store.records import FINAL, Status

CELLS_PER_REPLICATE = 20
EXPERIMENT = """
reference: IP
time_limit: {limit}
blocks:
  - workload: {{name: prefix, d: [4, 8, 16]}}
    mechanism: [IP, GM, CA, optimal]
    replicates: {replicates}
  - workload: {{name: wdiscrete, d: [6, 10], m: 12, probability: 0.3}}
    targets: {{name: random, seed: 5}}
    mechanism: [IP, GM, CA, HM]
    replicates: {replicates}
"""
TIME_LIMIT, CALM_TIME_LIMIT = 4, 600
"""Time limits of a solve, in seconds, with and without faults.

Without faults, the limit is so long that even on a busy machine no solve is stopped.
"""
MOST_DUE = 2
"""If more faults than this are due, the workers pause until some of them have happened."""
MOST_SECONDS_OF_SILENCE = 300.0
_REFUSALS = (
    "in use by|scheduler '.*' cannot be reached|scheduler .* does not answer; start it|"
    "cannot be written|No usable temporary directory"
)
"""Matches the messages of commands stopped by another run, a lost scheduler or a full disk."""
ORDERLY = {0, 1, 130, 143, -2, -9, -15}
"""Expected exit codes: success, cells that are not ok, and the ends by signals."""


@dataclass
class Figures:
    """The statistics of a chaos run."""

    cells: int = 0
    struck: Counter[str] = field(default_factory=Counter)
    commands: Counter[int] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    results: int = 0
    twice: int = 0
    set_aside: int = 0
    seconds: float = 0.0

    def lines(self) -> Iterator[str]:
        """Yield the lines to print."""
        ends = ", ".join(f"{code}: {n}" for code, n in sorted(self.commands.items()))
        yield f"{self.cells} cells, {self.struck.total()} faults in {self.seconds:.0f} s"
        yield from (f"{n:6} {kind}" for kind, n in sorted(self.struck.items()))
        yield f"{self.commands.total()} commands (exit codes {ends})"
        yield f"{self.results} results, {self.twice} computed again although recorded"
        yield f"{self.set_aside} segments set aside"
        yield from (f"FOUND: {one}" for one in self.findings)
        yield f"{len(self.findings)} findings"


class Chaos:
    """One chaos run in a folder.

    Parameters
    ----------
    folder : Path
        An empty folder.
    cells, faults, seed : int
        Least number of cells, number of faults, and seed of the faults.
    say : callable
        Called with a line of text for every fault, and whenever a command ends.
    """

    def __init__(
        self, folder: Path, cells: int, faults: int, seed: int, say: Callable[[str], None]
    ) -> None:
        self.folder, self.store = folder, folder / "store"
        for name in (MINES, "struck", "sound"):
            (folder / name).mkdir()
        replicates = -(-cells // CELLS_PER_REPLICATE)
        for name, limit in (("chaos", TIME_LIMIT), ("calm", CALM_TIME_LIMIT)):
            text = EXPERIMENT.format(replicates=replicates, limit=limit)
            (folder / f"{name}.yaml").write_text(text)
        self.cells, self.faults, self.say = replicates * CELLS_PER_REPLICATE, faults, say
        self.chance = random.Random(seed)
        self.house = House(folder)
        self.havoc = havoc.Havoc(self.house, self.store, self.chance)
        self.figures = Figures(cells=self.cells)
        self._journal: Journal | None = None
        self._queue: list[str] = []
        self._began = time.monotonic()

    def perform(self) -> Figures:
        """Run the sweep without faults, then with faults, and compare the results.

        The folder is removed if there are no findings.
        """
        try:
            self._calm()
            (self.folder / SLOW).touch()
            self._began = time.monotonic()
            self._disturbed()
            self.figures.seconds = time.monotonic() - self._began
        finally:
            self.house.close()
        self._judge()
        if not self.figures.findings:
            shutil.rmtree(self.folder)
        return self.figures

    def _calm(self) -> None:
        words = ("run", "calm.yaml", "--store", "calm", "--cluster", "lasting.yaml")
        self.house.keep()
        driver = self.house.driver = self.house.command(*words)
        if driver.process.wait(timeout=600) != 0:
            raise RuntimeError(f"the undisturbed run failed: {driver.said}")
        self.say(f"undisturbed: {self.cells} cells in {time.monotonic() - self._began:.0f} s")

    def _disturbed(self) -> None:
        struck, next_strike, next_start = 0, 0.0, 0.0
        last, heard = self._progress(), time.monotonic()
        self.house.driver = last_look = None
        while True:
            self.house.keep()
            self.havoc.undo()
            driver, now = self.house.driver, time.monotonic()
            if driver is not None and driver.process.poll() is not None:
                self._note_end(driver)
                self.house.driver, next_start = None, now + 0.5
                if driver.process.returncode == 0 and struck >= self.faults and driver is last_look:
                    self._progress()
                    if not self._is_complete():
                        return
            elif driver is None and now >= next_start:
                self.house.driver = self._next_command()
                last_look = self.house.driver if struck >= self.faults else None
            done = self._progress()
            if done != last:
                last, heard = done, now
            due = int(done / self.cells * (self.faults + 1)) - struck
            self._pause(due > MOST_DUE and struck < self.faults)
            complete = done >= self.cells and struck < self.faults
            if (due > 0 or complete) and struck < self.faults and now >= next_strike:
                struck += self._strike()
                next_strike = now + self.chance.uniform(0.3, 2.5)
            if now - heard > MOST_SECONDS_OF_SILENCE:
                raise RuntimeError(f"nothing new for {now - heard:.0f} s, {done} cells are done")
            if struck >= self.faults and done >= self.cells:
                self._clear()
            time.sleep(0.1)

    def _next_command(self) -> Driver:
        own = self.chance.random() < 0.2
        words = ["--cluster", "own.yaml" if own else "lasting.yaml"]
        if self._is_complete():
            words = ["rerun", "store", *words]
        else:
            words = ["run", "chaos.yaml", "--store", "store", *words]
        return self.house.command(*words, own_cluster=own)

    def _is_complete(self) -> bool:
        """Whether ``sweep run`` has nothing left to do, but ``sweep rerun`` has."""
        if self._journal is None:
            return False
        ledger = Journal(self._journal.folder).refresh()  # without the segments set aside since
        cells = load_stored(self.store).cells
        remaining = select_unfinished(cells, ledger)
        alone = (ledger.deaths(ledger.rows(remaining.ids)) >= MAX_WORKER_DEATHS).all()
        return bool(alone and (len(select_troubled(cells, ledger)) or ledger.bound_errors))

    def _progress(self) -> int:
        """Number of cells with a final record."""
        if not (self.store / "journal").is_dir() or not (self.store / "cells.json").exists():
            return 0
        if self._journal is None:
            self._journal = Journal(locate(self.store / "journal"))
        ledger = self._journal.refresh()
        return sum(one.status in FINAL for one in ledger.records(ledger.current))

    def _strike(self) -> int:
        """Make the next possible fault happen, and return the number of faults: 0 or 1.

        Kinds that have not occurred yet come first.
        """
        if not self._queue:
            self._queue = self.chance.sample(havoc.KINDS, len(havoc.KINDS))
        others = self.chance.sample(havoc.KINDS, len(havoc.KINDS))
        for kind in [*self._queue, *others]:
            if self.havoc.strike(kind):
                if kind in self._queue:
                    self._queue.remove(kind)
                self.figures.struck[kind] += 1
                self.say(f"{time.monotonic() - self._began:6.1f} s: {kind}")
                return 1
        return 0

    def _pause(self, wanted: bool) -> None:
        pause = self.folder / PAUSE
        if wanted:
            pause.touch()
        else:
            pause.unlink(missing_ok=True)

    def _clear(self) -> None:
        """End all faults: remove the mines, resume stopped processes, restore the dataset."""
        self.havoc.undo(everything=True)
        for mine in (self.folder / MINES).iterdir():
            mine.unlink(missing_ok=True)

    def _note_end(self, driver: Driver) -> None:
        code = driver.process.returncode
        self.figures.commands[code] += 1
        last = driver.said.strip().splitlines()[-1:] if code else []
        end = f"{driver.words[0]} ended with {code} {' '.join(last)}".rstrip()
        self.say(f"{time.monotonic() - self._began:6.1f} s: {end}")
        self._judge_end(driver)

    def _judge_end(self, driver: Driver) -> None:
        code, said = driver.process.returncode, driver.said
        refused = code == 2 and re.search(_REFUSALS, said)
        if code not in ORDERLY and not refused:
            self.figures.findings.append(f"{driver.words[0]} ended with {code}: {said[-500:]}")
        if "Traceback" in said or "internal error" in said:
            self.figures.findings.append(f"a traceback on the screen: {said[-2000:]}")

    def _judge(self) -> None:
        figures, journal = self.figures, self.store / "journal"
        for other in self.havoc.seconds:
            self._judge_end(other)
        cells = load_stored(self.store).cells
        ledger = Journal(locate(journal)).refresh()
        missing = int((ledger.statuses(ledger.rows(cells.ids)) != Status.OK).sum())
        if missing:
            figures.findings.append(f"{missing} cells have no sound result")
        calm, disturbed = (sweep.open(store).load() for store in (self.folder / "calm", self.store))
        wrong = judge.differences(calm, disturbed)
        figures.findings += [f"{name} differs from the undisturbed run" for name in wrong]
        written = judge.written(journal, self.folder / "sound", self.havoc.damaged)
        runs = {one.run for one in written}
        reruns = {r for r in runs if self.house.command_at(judge.beginning(r)) == "rerun"}
        again = judge.computed_twice(written, reruns)
        figures.findings += [f"{one} was recorded before, and computed again" for one in again]
        figures.results, figures.twice = len(written), len(again)
        figures.set_aside = len(list(journal.glob(f"*{SUFFIX}{DAMAGED}")))
