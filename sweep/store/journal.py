"""The journal: immutable segments of records, the truth that the dataset is derived from.

A segment is a file of JSON lines, written by one task under a temporary name, synchronised
to the disk and renamed, so that it exists whole or not at all, whatever is killed. A long task
writes several: ``TASK+...`` while it runs, ``TASK`` when it is done. Names sort in the order of
runs. The first line of a segment holds a checksum of the others, so that a segment that is changed
or cut later is noticed. That of a compact segment also names the segments whose records it holds:
they count no longer, whether they are still there or not.
"""

import json
import math
import os
import re
import socket
import threading
import uuid
import zlib
from collections.abc import Container, Iterable, Mapping
from typing import Any

from sweep.errors import DamagedSegmentError, StoreError
from sweep.store import disk, index
from sweep.store.ledger import Ledger
from sweep.store.location import Location
from sweep.store.records import CellRecord, ForgottenRecord, Record, from_json, to_json

SUFFIX = ".jsonl"
DAMAGED = ".damaged"
COMPACT = "-compact-"
"""Part of the name of every compact segment."""
_HEAD = "segment"
_CELL = re.compile(rb'"cell":\s*"([^"]+)"')


class _ChecksumError(ValueError):
    """The records are not those that were written."""


def write_segment(
    folder: Location, name: str, records: Iterable[Record], replaces: Iterable[str] = ()
) -> Location:
    """Write one segment, whole or not at all.

    Parameters
    ----------
    folder : Path or ObjectPath
        The journal's folder.
    name : str
        The segment's name, without suffix.
    records : iterable of Record
        Its content, in order.
    replaces : iterable of str
        File names of the segments whose records it holds, if it is a compact one.

    Returns
    -------
    Path or ObjectPath
        The segment's file.

    Raises
    ------
    OSError
        If it cannot be written; nothing is left behind then.
    """
    final = folder / (name + SUFFIX)
    unique = f"{socket.gethostname()}-{os.getpid()}-{threading.get_ident()}"
    disk.write(final, segment_text(records, replaces), unique)
    return final


def segment_text(records: Iterable[Record], replaces: Iterable[str] = ()) -> str:
    """What a segment of these records holds; parameters as for `write_segment`."""
    lines = "".join(
        json.dumps(_finite(to_json(record)), separators=(",", ":"), allow_nan=False) + "\n"
        for record in records
    )
    facts = {"kind": _HEAD, "crc32": zlib.crc32(lines.encode()), "replaces": sorted(replaces)}
    return json.dumps({key: value for key, value in facts.items() if value != []}) + "\n" + lines


def read_segment(path: Location, cells: Container[str] | None = None) -> list[Record]:
    """The records of one segment, in order.

    Parameters
    ----------
    path : Path or ObjectPath
        The segment's file.
    cells : container of str, optional
        Ids of the only cells whose records are wanted, which spares parsing all others.

    Raises
    ------
    DamagedSegmentError
        If it holds something else than was written; a segment of an earlier version has no
        checksum, so that only what cannot be understood is noticed.
    StoreError
        If it cannot be read.
    """
    try:
        content = disk.content(path)
    except OSError as error:
        raise StoreError(
            f"journal segment {str(path)!r} cannot be read ({error.strerror}); let it be read, or "
            "move it away: its cells are then solved again"
        ) from error
    try:
        lines = _checked(content).splitlines()
        if cells is not None:
            lines = [line for line in lines if _cell_of(line) in cells]
        return [from_json(json.loads(line)) for line in lines]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        said = str(error) if isinstance(error, _ChecksumError) else type(error).__name__
        raise DamagedSegmentError(
            f"journal segment {str(path)!r} is damaged ({said}); restore it, or let 'sweep run' "
            "set it aside and solve its cells again"
        ) from error


def was_removed(path: Location, error: StoreError) -> bool:
    """Whether a segment cannot be read because a compaction has removed it meanwhile."""
    gone = isinstance(error.__cause__, FileNotFoundError)
    return gone and path.name not in disk.names(path.parent)


def replaced_by(path: Location) -> frozenset[str]:
    """File names of the segments that a compact segment replaces; none if it is damaged."""
    try:
        _checked(content := disk.content(path))
        return frozenset(json.loads(content.partition(b"\n")[0]).get("replaces", ()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return frozenset()


class Journal:
    """Reads a folder of segments into a ledger, each segment once.

    Parameters
    ----------
    folder : Path or ObjectPath
        The folder of the segments. The index beside it spares reading the segments that it holds.

    Attributes
    ----------
    damaged : dict of str to str
        What is wrong with the segments that were left out, by file name.
    """

    def __init__(self, folder: Location) -> None:
        self.folder = folder
        self.ledger = Ledger()
        self.damaged: dict[str, str] = {}
        self._seen: set[str] = set()
        self._replaced: set[str] = set()
        self._indexed: Mapping[str, str] = {}
        self._index = folder.parent / index.NAME
        self._look_up()

    def _look_up(self) -> None:
        """Begin with the index, if every segment that it holds is as it was."""
        found = index.read(self._index)
        if found is None:
            return
        try:
            now = disk.stamps(self.folder)
        except OSError:
            return
        if all(now.get(name) == stamp for name, stamp in found.segments.items()):
            self.ledger = found.ledger
            self._seen, self._replaced = set(found.segments), set(found.replaced)
            self._indexed = found.segments

    def write_index(self) -> None:
        """Write the index of the segments taken in, unless it is there or would say more.

        A segment that has changed since it was taken in keeps the index from being written, so
        that the next command reads the journal and finds it.

        Raises
        ------
        OSError
            If that is not possible.
        """
        if self._seen == self._indexed.keys() or self.ledger.altered:
            return
        now = disk.stamps(self.folder)
        if not self._seen <= now.keys():
            return
        segments = {name: now[name] for name in self._seen}
        unproven = (name for name in segments if segments[name] != self._indexed.get(name))
        if all(_is_sound(self.folder / name) for name in unproven):
            index.write(self._index, index.Index(self.ledger, segments, frozenset(self._replaced)))
            self._indexed = segments

    def refresh(self) -> Ledger:
        """Take in the segments that are new since the last call."""
        try:
            names = disk.names(self.folder)
        except OSError as error:
            raise StoreError(
                f"journal {str(self.folder)!r} cannot be read ({error.strerror}); restore it, or "
                "give another --store"
            ) from error
        self.damaged = {}
        fresh = [name for name in names if name.endswith(SUFFIX) and name not in self._seen]
        for name in fresh:
            if COMPACT in name:
                self._replaced |= replaced_by(self.folder / name)
        if self._replaced & self._seen:
            self.ledger, self._seen = Ledger(), set()
            return self.refresh()
        for name in fresh:
            if name in self._replaced:
                continue
            try:
                self.ledger.add(read_segment(self.folder / name))
            except DamagedSegmentError as error:
                self.damaged[name] = str(error)
                continue
            except StoreError as error:
                if was_removed(self.folder / name, error):
                    return self.refresh()
                raise
            self._seen.add(name)
        return self.ledger

    def set_aside(self) -> dict[str, Location]:
        """Rename the damaged segments, so that they are kept but no longer read.

        Returns
        -------
        dict of str to Path or ObjectPath
            Where each of them is now, by file name.

        Raises
        ------
        OSError
            If the disk does not take it.
        """
        kept = {name: self.folder / f"{name}{DAMAGED}" for name in self.damaged}
        for name, path in kept.items():
            disk.rename(self.folder / name, path)
        self.damaged.clear()
        return kept

    def take(self, name: str, records: Iterable[Record]) -> None:
        """Take in a segment that its writer has also handed over in memory."""
        if name + SUFFIX not in self._seen:
            self._seen.add(name + SUFFIX)
            self.ledger.add(records)

    def records(self) -> list[Record]:
        """All records taken in, oldest first, without those that are forgotten."""
        kept: list[Record] = []
        forgotten: set[str] = set()
        for name in sorted(self._seen, reverse=True):
            try:
                held = read_segment(self.folder / name)
            except StoreError as error:
                if was_removed(self.folder / name, error):
                    self.refresh()
                if name in self._seen:
                    raise
                return self.records()
            for record in reversed(held):
                if isinstance(record, ForgottenRecord):
                    forgotten.add(record.cell)
                elif not (isinstance(record, CellRecord) and record.cell in forgotten):
                    kept.append(record)
        return kept[::-1]

    def compact(self, name: str) -> int:
        """Put the records of all segments taken in into one, and remove these.

        A reader finds either the old segments or the new one, whenever this is killed. Records
        that are forgotten are gone then.

        Parameters
        ----------
        name : str
            Beginning of the new segment's name, which sorts behind the old ones.

        Returns
        -------
        int
            The number of segments before.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        old = sorted(self._seen)
        write_segment(self.folder, f"{name}{COMPACT}{uuid.uuid4().hex[:8]}", self.records(), old)
        left_by_a_killed_one = self._replaced & set(disk.names(self.folder))
        for one in {*old, *left_by_a_killed_one}:
            (self.folder / one).unlink(missing_ok=True)
        return len(old)

    @property
    def names(self) -> frozenset[str]:
        """File names of the segments taken in."""
        return frozenset(self._seen)

    @property
    def state(self) -> str:
        """Number and checksum of the names of the segments taken in."""
        return f"{len(self._seen)}:{zlib.crc32(' '.join(sorted(self._seen)).encode()):08x}"


def _is_sound(segment: Location) -> bool:
    """Whether a segment is as it was written, by its checksum."""
    try:
        _checked(disk.content(segment))
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return True


def _cell_of(line: bytes) -> str | None:
    """The cell that a record is about, which is the first thing that its line tells."""
    found = _CELL.search(line)
    return found[1].decode() if found else None


def _checked(content: bytes) -> bytes:
    """The lines of a segment behind its head, once they are found to be those written."""
    if not content:
        return content
    head, _, lines = content.partition(b"\n")
    said = json.loads(head)
    if said["kind"] != _HEAD:
        return content
    if zlib.crc32(lines) != said["crc32"]:
        raise _ChecksumError("its checksum is another")
    return lines


def _finite(content: Any) -> Any:
    """The content with NaN and infinite numbers as texts that ``float`` reads."""
    if isinstance(content, dict):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    if isinstance(content, float) and not math.isfinite(content):
        return str(content)
    return content
