"""A copy of the project in which files can be broken, and its tests run."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.mutants.calls import CONTEXT, FOLDER

_LEFT_OUT = ("build", "dist", "results", "__pycache__", "*.egg-info", ".*")
_LISTENS = f"""import os

if "{FOLDER}" in os.environ:
    from benchmarks.mutants import calls

    calls.listen()
"""


@dataclass(frozen=True)
class Outcome:
    """How a run of tests ended: its exit code, None where it hung; and what it printed."""

    code: int | None
    printed: str


@dataclass(frozen=True)
class Copy:
    """A copy of the project; `root` is where."""

    root: Path

    @classmethod
    def of(cls, project: Path, root: Path) -> "Copy":
        """Copy the project, without generated files."""
        shutil.copytree(project, root, ignore=shutil.ignore_patterns(*_LEFT_OUT))
        (root / "sitecustomize.py").write_text(_LISTENS, encoding="utf-8")
        return cls(root)

    def test(
        self, tests: Sequence[str], limit: float, environment: Mapping[str, str] | None = None
    ) -> Outcome:
        """Run these tests until one fails, for at most so many seconds; of the copy, surely."""
        listed = self.root / "tests.selected"
        listed.write_text("\n".join(tests), encoding="utf-8")
        known = {
            **{name: value for name, value in os.environ.items() if name not in (FOLDER, CONTEXT)},
            "PYTHONPATH": str(self.root),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OPENBLAS_NUM_THREADS": "1",
            **(environment or {}),
        }
        words = [sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider"]
        plugin = ["-p", "benchmarks.mutants.calls"] if FOLDER in known else ["-x"]
        process = subprocess.Popen(
            [*words, *plugin, f"@{listed}"],
            cwd=self.root,
            env=known,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            printed, _ = process.communicate(timeout=limit)
            return Outcome(process.returncode, printed)
        except subprocess.TimeoutExpired:
            return Outcome(None, "")
        finally:
            _end(process)


def _end(process: "subprocess.Popen[str]") -> None:
    """End the process and whatever it started and left behind."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
