"""Where a worker writes."""

import json
import socket
from dataclasses import dataclass, field
from pathlib import Path

from sweep.errors import StoreError
from sweep.store import code, journal, versions
from sweep.store.records import Record


@dataclass(frozen=True)
class StoreView:
    """Where a worker writes, and what.

    Attributes
    ----------
    store : str
        The store's folder, on a disk that the workers share with the driver.
    identity : str
        The store's identity; a folder without it is left alone.
    keep : tuple of str
        Which arrays to store.
    interval : float
        Seconds between two recordings of what a task has done so far.
    code : str
        The code that must solve: that of the process which makes the view.
    versions : str
        The versions that must solve, likewise; empty if any will do.
    """

    store: str
    identity: str
    keep: tuple[str, ...] = ()
    interval: float = 5.0
    code: str = field(default_factory=code.digest)
    versions: str = field(default_factory=versions.ours)

    @property
    def journal(self) -> Path:
        """The journal's folder."""
        return Path(self.store) / "journal"

    @property
    def reachable(self) -> bool:
        """Whether the store is on a disk of this machine."""
        try:
            content = json.loads((Path(self.store) / "store.json").read_text(encoding="utf-8"))
        except OSError:
            return False
        return bool(content["identity"] == self.identity)

    def check_reachable(self) -> None:
        """Refuse to keep arrays where the store is not.

        Raises
        ------
        StoreError
            If it is not on a disk of this machine.
        """
        if not self.reachable:
            raise StoreError(
                f"keep: worker {socket.gethostname()} does not see store {self.store!r}, so the "
                "arrays cannot be kept; put the store on a disk that the workers share, or leave "
                "'keep' out"
            )

    def write(self, name: str, records: list[Record]) -> bool:
        """Put records into the journal as one segment; False if the disk does not take it."""
        try:
            journal.write_segment(self.journal, name, records)
        except OSError:
            return False
        return True
