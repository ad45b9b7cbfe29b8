"""A store as workers see it: just enough to write records and arrays into it."""

import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sweep.errors import StoreError
from sweep.store import segments
from sweep.store.code import project
from sweep.store.code import versions as of_libraries
from sweep.store.folder import open_
from sweep.store.places import Location, located
from sweep.store.records import Record


@dataclass(frozen=True)
class WorkerStore:
    """A store as workers see it; it travels with every task.

    Attributes
    ----------
    store : str
        The store's folder, on a disk that the workers share with the driver, or its address in an
        object store.
    identity : str
        The store's identity; a worker leaves a folder without it alone.
    keep : tuple of str
        The arrays to store.
    interval : float
        Seconds after which a task writes down the results that it has so far.
    code : str
        The project and its revisions that have to solve: by default those of the process which
        makes the view.
    versions : str
        The versions that have to solve, likewise; empty if any will do.
    mechanisms : tuple of (str, callable)
        Functions of the user's that are mechanisms for this run.
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
        """Whether this machine sees the store's folder."""
        try:
            return open_(self.place).identity == self.identity
        except StoreError:
            return False

    def check_reachable(self) -> None:
        """Refuse to keep arrays where the store is not.

        Raises
        ------
        StoreError
            If this machine does not see the store's folder.
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
            segments.write_segment(self.journal, name, records)
        except OSError:
            return False
        return True
