"""The cost of every command for a given number of trivial cells: time, processor time, memory.

``python -m benchmarks.many_cells 1000000`` writes an experiment and an empty store into a new
folder (``--folder`` keeps them) and runs ``plan``, ``run``, ``run`` again, ``status`` and
``show``. Memory is that of the command with its scheduler, without its workers. Only the first
command compiles modules; those of an installed package are already compiled.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

FILE = """
blocks:
  - workload: {name: prefix, d: 4}
    mechanism: IP
    replicates: %d
reference: IP
"""
COMMANDS = {
    "plan": ("plan", "many.yaml", "--store", "store"),
    "run": ("run", "many.yaml", "--store", "store"),
    "run again": ("run", "many.yaml", "--store", "store"),
    "status": ("status", "store"),
    "show": ("show", "store"),
}
_LOOK_SECONDS = 0.1
_TICKS = os.sysconf("SC_CLK_TCK")


def cost(words: tuple[str, ...], folder: Path) -> str:
    """Seconds, processor seconds and memory of one command."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "sweep.cli", *words]
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
    own = peak = 0.0
    while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
        with suppress(OSError, IndexError):
            own, peak = _so_far(process.pid)
        time.sleep(_LOOK_SECONDS)
    _, status, usage = ended
    seconds, both = time.perf_counter() - started, usage.ru_utime + usage.ru_stime
    if status:
        raise SystemExit(f"{' '.join(words)} ended with {os.waitstatus_to_exitcode(status)}")
    workers = f", {both - own:.1f} s of its workers" if both > 1.5 * own + 1.0 else ""
    return f"{seconds:.1f} s; processor {own:.1f} s{workers}; {peak:.0f} MB at most"


def _so_far(pid: int) -> tuple[float, float]:
    """Processor seconds of a process without its children, and its largest memory in MB."""
    place = Path(f"/proc/{pid}")
    user, system = (place / "stat").read_text().rpartition(")")[2].split()[11:13]
    largest = (place / "status").read_text().partition("VmHWM:")[2].split()[0]
    return (int(user) + int(system)) / _TICKS, int(largest) / 1024


def main() -> None:
    """Measure all commands, one after another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cells", type=int)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = given.folder or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "many.yaml").write_text(FILE % given.cells)
        for name, words in COMMANDS.items():
            print(f"{name}: {cost(words, folder)}", flush=True)


if __name__ == "__main__":
    main()
