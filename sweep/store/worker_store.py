"""The part of a store that workers need: its address, and writing records into it."""

import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sweep.errors import StoreError
from sweep.store.code import project
from sweep.store.code import versions as of_libraries
from sweep.store.folder import open_
from sweep.store.journal import write_segment
from sweep.store.places import Location, located
from sweep.store.records import Record


@dataclass(frozen=True)
class WorkerStore:
    """The store as a worker knows it; sent with every task.

    Attributes
    ----------
    store : str
        The store's folder, on a disk that the workers share with the driver, or its address in an
        object store.
    identity : str
        The store's identity; a worker writes nothing into a folder that has another.
    keep : tuple of str
        The arrays to store.
    interval : float
        Seconds between two segments of a running task.
    code : str
        The project version and revisions that a worker must have; by default this process's.
    versions : str
        The library versions that a worker must have, likewise; empty if any will do.
    mechanisms : tuple of (str, callable)
        The user's functions that are mechanisms in this run.
    """

    store: str
    identity: str
    keep: tuple[str, ...] = ()
    interval: float = 5.0
    code: str = field(default_factory=project)
    versions: str = field(default_factory=of_libraries)
    mechanisms: tuple[tuple[str, Callable[..., Any]], ...] = ()

    @property
    def place(self) -> Location:
        """The store's folder."""
        return located(self.store)

    @property
    def journal(self) -> Location:
        """The journal's folder."""
        return self.place / "journal"

    @property
    def reachable(self) -> bool:
        """Whether this machine can open the store."""
        try:
            return open_(self.place).identity == self.identity
        except StoreError:
            return False

    def check_reachable(self) -> None:
        """Refuse to keep arrays on a machine that cannot open the store.

        Raises
        ------
        StoreError
            If this machine cannot open the store.
        """
        if not self.reachable:
            raise StoreError(
                f"keep: worker {socket.gethostname()} does not see store {self.store!r}, so the "
                "arrays cannot be kept; put the store on a disk that the workers share, or leave "
                "'keep' out"
            )

    def write(self, name: str, records: list[Record]) -> bool:
        """Write records into the journal as one segment; False if that fails."""
        try:
            write_segment(self.journal, name, records)
        except OSError:
            return False
        return True
