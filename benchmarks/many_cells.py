"""Time, processor time and memory of the main commands for a given number of trivial cells.

Run: ``python -m benchmarks.many_cells 1000000``. The program writes an experiment into a temporary
folder (with ``--folder``, into a folder that is kept), and runs ``plan``, ``run``, ``run`` again,
``status``, ``show`` and ``compact``, which first joins many segments and then reads a single one.
The memory is that of the command's process, which includes the scheduler but not the workers. The
time of the first command includes compiling modules, which an installed package does not need.
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
    "compact": ("compact", "store"),
    "compact again": ("compact", "store"),
}
_LOOK_SECONDS = 0.1
_TICKS = os.sysconf("SC_CLK_TCK")


def cost(words: tuple[str, ...], folder: Path) -> str:
    """Run one command, and return its time, processor time and memory as text."""
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
    """Return a process's processor seconds, without its children, and its peak memory in MB."""
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
