"""The journal: immutable segments of records, the truth that the dataset is derived from.

A segment is a file of JSON lines, written by one task under a temporary name, synchronised
to the disk and renamed, so that it exists whole or not at all, whatever is killed. A long task
writes several: ``TASK+...`` while it runs, ``TASK`` when it is done. Names sort in the order of
runs.
"""

import json
import math
import os
import socket
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sweep.errors import StoreError
from sweep.store.ledger import Ledger
from sweep.store.records import Record, from_json, to_json

SUFFIX = ".jsonl"


def write_segment(folder: Path, name: str, records: Iterable[Record]) -> Path:
    """Write one segment, whole or not at all.

    Parameters
    ----------
    folder : Path
        The journal's folder.
    name : str
        The segment's name, without suffix.
    records : iterable of Record
        Its content, in order.

    Returns
    -------
    Path
        The segment's file.

    Raises
    ------
    OSError
        If it cannot be written; nothing is left behind then.
    """
    text = "".join(
        json.dumps(_finite(to_json(record)), separators=(",", ":"), allow_nan=False) + "\n"
        for record in records
    )
    unique = f"{socket.gethostname()}-{os.getpid()}-{threading.get_ident()}"
    temporary = folder / f".{name}.{unique}.partial"
    final = folder / (name + SUFFIX)
    try:
        with temporary.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(final)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return final


def read_segment(path: Path) -> list[Record]:
    """The records of one segment, in order.

    Raises
    ------
    StoreError
        If it cannot be read.
    """
    try:
        with path.open(encoding="utf-8") as stream:
            return [from_json(json.loads(line)) for line in stream]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(
            f"journal segment {str(path)!r} cannot be read ({type(error).__name__}: {error}); "
            "restore it, or move it away: its cells are then solved again"
        ) from error


class Journal:
    """Reads a folder of segments into a ledger, each segment once.

    Parameters
    ----------
    folder : Path
        The folder of the segments.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = Ledger()
        self._seen: set[str] = set()

    def refresh(self) -> Ledger:
        """Take in the segments that are new since the last call."""
        try:
            entries = os.scandir(self.folder)
        except OSError as error:
            raise StoreError(
                f"journal {str(self.folder)!r} cannot be read ({error.strerror}); restore it, or "
                "give another --store"
            ) from error
        with entries:
            names = sorted(
                entry.name
                for entry in entries
                if entry.name.endswith(SUFFIX) and entry.name not in self._seen
            )
        for name in names:
            self.ledger.add(read_segment(self.folder / name))
            self._seen.add(name)
        return self.ledger

    def take(self, name: str, records: Iterable[Record]) -> None:
        """Take in a segment that its writer has also handed over in memory."""
        if name + SUFFIX not in self._seen:
            self._seen.add(name + SUFFIX)
            self.ledger.add(records)

    @property
    def names(self) -> frozenset[str]:
        """File names of the segments taken in."""
        return frozenset(self._seen)

    @property
    def segments(self) -> int:
        """Number of segments taken in."""
        return len(self._seen)


def _finite(content: Any) -> Any:
    """The content with NaN and infinite numbers as texts that ``float`` reads."""
    if isinstance(content, dict):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    if isinstance(content, float) and not math.isfinite(content):
        return str(content)
    return content
