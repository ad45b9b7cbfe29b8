"""A private disk: a file system in memory of a given size, which can be full or read-only."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_ROOT = os.geteuid() == 0
_UNSHARE = ["unshare", "-m"] if _ROOT else ["unshare", "-Urm"]
_ENTER = ["-m"] if _ROOT else ["-U", "-m", "--preserve-credentials"]


def missing() -> str:
    """Why a disk cannot be made here; empty if it can."""
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        return "no unshare and nsenter (Debian: util-linux)"
    tried = subprocess.run(
        [*_UNSHARE, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, text=True
    )
    return tried.stderr.strip() and f"no file system can be mounted: {tried.stderr.strip()}"


@dataclass(frozen=True)
class Disk:
    """A disk that only processes started by `on` can see.

    Attributes
    ----------
    folder : Path
        Its path for these processes.
    process : int
        One of these processes, which does nothing.
    """

    folder: Path
    process: int

    @property
    def on(self) -> list[str]:
        """The words before a command that sees the disk, and that start beside it."""
        there = ["sh", "-c", 'cd "$0" && exec "$@"', str(self.folder.parent)]
        return ["nsenter", "-t", str(self.process), *_ENTER, *there]

    @property
    def seen(self) -> Path:
        """Its path for all other processes."""
        return Path(f"/proc/{self.process}/root{self.folder}")

    @contextmanager
    def full(self, but: int = 0) -> Iterator[None]:
        """Leave this many bytes free; none stays none, whatever others free."""
        ballast = self.seen / "ballast"
        fill = f"while :; do cat /dev/zero >> {ballast}; sleep 0.01; done"
        if but:
            fill = f"head -c {_free(self.seen) - but} /dev/zero > {ballast}; exec sleep infinity"
        with subprocess.Popen(["sh", "-c", fill], stderr=subprocess.DEVNULL) as filling:
            while _free(self.seen) > but and filling.poll() is None:
                time.sleep(0.01)
            try:
                yield
            finally:
                filling.kill()
                filling.wait()
                ballast.unlink()

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Remount it read-only."""
        self._remount("ro")
        try:
            yield
        finally:
            self._remount("rw")

    def _remount(self, how: str) -> None:
        """The kernel refuses that while a process writes."""
        words = [*self.on, "mount", "-o", f"remount,{how}", str(self.folder)]
        end = time.monotonic() + 300
        while time.monotonic() < end:
            if subprocess.run(words, capture_output=True).returncode == 0:
                return
            time.sleep(0.01)
        raise TimeoutError(f"{self.folder} cannot be remounted {how}")


def _free(folder: Path) -> int:
    about = os.statvfs(folder)
    return about.f_bavail * about.f_bsize


@contextmanager
def mounted(folder: Path, size: str) -> Iterator[Disk]:
    """A disk of this size, mounted at a folder."""
    folder.mkdir()
    mount = f"mount -t tmpfs -o size={size} none {folder} && echo there && exec sleep infinity"
    with subprocess.Popen([*_UNSHARE, "sh", "-c", mount], stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"there\n"
            yield Disk(folder, holder.pid)
        finally:
            holder.kill()
