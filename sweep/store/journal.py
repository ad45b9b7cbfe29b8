"""The journal: immutable segments of records, from which everything else is derived.

A segment is a file of JSON lines. It is written under a temporary name, synchronised to the disk
and renamed, so that it exists whole or not at all, even if its writer is killed. A long task writes
several segments: ``TASK+...`` while it runs, and ``TASK`` when it is done. Sorted by name, segments
are in the order of their runs. The first line of a segment contains a checksum of the other lines,
which reveals whether the file was changed or truncated later. Reading a record twice changes
nothing, so a compact segment may coexist with the older segments that were merged into it.

The index beside the journal lists segments and contains their ledger, so that commands need not
read these segments. The index is valid only while the stamps of all listed segments are unchanged;
rewriting a file changes its stamp. If the index is invalid, damaged or of another version, commands
read the journal, and the next run writes the index again.
"""

import json
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from itertools import chain

import numpy as np

from sweep.errors import DamagedSegmentError
from sweep.store import code
from sweep.store.ledger import Ledger
from sweep.store.paths import Location, unreadable
from sweep.store.records import (
    BoundRecord,
    ForgottenRecord,
    Record,
    Status,
    from_json,
    to_json,
)

SUFFIX = ".jsonl"
DAMAGED = ".damaged"
COMPACT = "-compact-"
"""Part of the name of every compact segment, which is the result of merging older segments."""
INDEX = "index.npz"
_INDEX_FORMAT = 10
_FACTS = "facts"
_HEAD = "segment"
_HEAD_BYTES = 48
"""Length of a segment's first line; the longest content, with a checksum of 10 digits, has 40."""
_PIECE_BYTES = 2**16
"""Bytes that are read at once for the checksum; a segment of a few records is one piece."""


class Journal:
    """Reads a folder of segments into a ledger, each segment once.

    Parameters
    ----------
    folder : Path or ObjectPath
        The folder of the segments. Segments listed in the index beside this folder are not read.

    Attributes
    ----------
    names : set of str
        The file names of the segments whose records are in the ledger.
    damaged : dict of str to str
        The error messages of the damaged segments, by file name.
    missing : list of str
        The file names of the segments that the index lists but that no longer exist, although no
        compaction has removed them.
    """

    def __init__(self, folder: Location) -> None:
        self.folder = folder
        self.ledger = Ledger()
        self.damaged: dict[str, str] = {}
        self.names: set[str] = set()
        self.missing: list[str] = []
        self._indexed: Mapping[str, str] = {}
        """The stamps of the segments in the index, by file name."""
        self._index = self.folder.parent / INDEX
        self._index_writer = [_INDEX_FORMAT, code.project()]
        """The index's format, and this project's revisions, which decide which bounds are valid."""
        self._read_index()

    def refresh(self) -> Ledger:
        """Read all segments that are not in the ledger yet, and return the ledger."""
        try:
            listed = self.folder.names()
        except OSError as error:
            raise unreadable(self.folder, error, "restore it, or give another --store") from error
        self.damaged = {}
        fresh = [name for name in listed if name.endswith(SUFFIX) and name not in self.names]
        if self.names and fresh:
            # The ledger's order is that of the segments' names, so it is built anew if
            # a compact segment replaces some that were read, and an earlier run's records precede
            # some that are in the ledger
            late = run_of(fresh[0]) < run_of(max(self.names))
            if late or any(COMPACT in name for name in fresh):
                return self._read_anew()
        for name in fresh:
            try:
                self.ledger.add(read_segment(self.folder / name))
            except DamagedSegmentError as error:
                self.damaged[name] = str(error)
            except FileNotFoundError:  # a compaction has removed it
                return self.refresh()
            else:
                self.names.add(name)
        return self.ledger

    def _read_anew(self) -> Ledger:
        self.ledger, self.names = Ledger(), set()
        return self.refresh()

    def take(self, name: str, records: Iterable[Record]) -> None:
        """Add a segment's records to the ledger, so that the segment's file need not be read."""
        if name + SUFFIX not in self.names:
            self.names.add(name + SUFFIX)
            self.ledger.add(records)

    def set_aside(self) -> tuple[dict[str, Location], Ledger]:
        """Rename the damaged segments: they are not deleted, but no longer read.

        The ledger and the index may contain records of these segments, added by `take`. So the
        ledger is built again from the other segments, and the index is deleted.

        Returns
        -------
        dict of str to Path or ObjectPath, Ledger
            The new path of each segment, by its old file name; the new ledger.

        Raises
        ------
        OSError
            If a segment cannot be renamed.
        """
        kept = {name: self.folder / f"{name}{DAMAGED}" for name in self.damaged}
        for name, path in kept.items():
            (self.folder / name).rename(path)
        self._index.unlink(missing_ok=True)
        self._indexed = {}
        return kept, self._read_anew()

    def records(self) -> Iterator[Record]:
        """Yield the records of all segments read so far, oldest first, except forgotten records.

        For a forgotten ``ok`` record that contains a lower bound, a `BoundRecord` is yielded. The
        records are never in memory together.

        Raises
        ------
        FileNotFoundError
            If a compaction has removed a segment since it was read.
        """

        def numbered() -> Iterator[tuple[int, Record]]:
            files = (self.folder / name for name in sorted(self.names))
            return enumerate(chain.from_iterable(map(read_segment, files)))

        # the number of every cell's last tombstone; it forgets all earlier records of the cell
        forgotten: dict[str, int] = {}
        if self.ledger.has_forgotten:
            tombstones = ((n, one) for n, one in numbered() if isinstance(one, ForgottenRecord))
            forgotten = {tombstone.cell: number for number, tombstone in tombstones}
        for number, record in numbered():
            if isinstance(record, BoundRecord):
                yield record
            elif isinstance(record, ForgottenRecord):
                continue
            elif number > forgotten.get(record.cell, -1):
                yield record
            elif record.status is Status.OK and "lower_bound" in record.numbers:
                bound = float(record.numbers["lower_bound"])
                yield BoundRecord(record.problem, bound, code=record.code.certifier)

    def copy(self, folder: Location, name: str) -> Location:
        """Write all records read so far into one segment of a journal; return the segment's file.

        Raises
        ------
        OSError
            If the segment cannot be written.
        """
        while True:
            try:
                return write_segment(folder, name, self.records())
            except FileNotFoundError:
                if self.names <= {*self.folder.names()}:
                    raise
                self._read_anew()  # a compaction has removed a segment

    def compact(self, name: str) -> int:
        """Merge all segments read so far into a single new segment.

        An interruption does not change the journal's content: the oldest segments are removed
        first, so a tombstone is never removed before the records that it invalidates.

        Parameters
        ----------
        name : str
            Beginning of the new segment's name; it must sort after the names of all old segments.

        Returns
        -------
        int
            The number of segments that were replaced.

        Raises
        ------
        OSError
            If the new segment cannot be written, or an old one cannot be removed.
        """
        old = sorted(self.names)
        # 1. the new segment exists as a whole before any old one goes; reading both changes nothing
        compact = self.copy(self.folder, f"{name}{COMPACT}{uuid.uuid4().hex[:8]}")
        # 2. oldest first, so that a tombstone outlives the records that it forgets
        for segment in old:
            (self.folder / segment).unlink(missing_ok=True)
        self.names = {compact.name}
        return len(old)

    @property
    def state(self) -> str:
        """The number of segments read so far and a checksum of their names, as one text."""
        return f"{len(self.names)}:{zlib.crc32(' '.join(sorted(self.names)).encode()):08x}"

    def write_index(self) -> None:
        """Write the index of the segments read so far, unless it is up to date.

        If one of these segments is missing, nothing is written.

        Raises
        ------
        OSError
            If the index cannot be written.
        """
        if self.names == self._indexed.keys():
            return
        now = self.folder.stamps()
        if not self.names <= now.keys():
            return
        # a segment that has changed since it was indexed must keep its old stamp
        stamps = {name: self._indexed.get(name, now[name]) for name in self.names}
        columns, facts = self.ledger.content()
        facts |= {"written_by": self._index_writer, "segments": stamps}
        columns[_FACTS] = np.frombuffer(json.dumps(facts).encode(), np.uint8)
        with self._index.writing() as file:
            np.savez(file, allow_pickle=False, **columns)
        self._indexed = stamps

    def _read_index(self) -> None:
        """Set `missing`, and restore the ledger from the index if the index is valid."""
        try:
            with np.load(BytesIO(self._index.read_bytes()), allow_pickle=False) as archive:
                columns = dict(archive)
            facts = json.loads(columns.pop(_FACTS).tobytes())
            now, segments = self.folder.stamps(), facts["segments"]
            compacted = max((name for name in now if COMPACT in name), default="")
            self.missing = sorted(name for name in segments.keys() - now if name > compacted)
            if facts["written_by"] != self._index_writer or not segments.items() <= now.items():
                return
            self.ledger = Ledger.restored(columns, facts)
            self.names, self._indexed = set(segments), segments
        except Exception:  # a damaged index may raise anything; the journal has all records
            return


def write_segment(folder: Location, name: str, records: Iterable[Record]) -> Location:
    """Write one segment, completely or not at all.

    Parameters
    ----------
    folder : Path or ObjectPath
        The journal's folder.
    name : str
        The segment's name, without suffix.
    records : iterable of Record
        The segment's records, in order.

    Returns
    -------
    Path or ObjectPath
        The segment's file.

    Raises
    ------
    OSError
        If the segment cannot be written.
    """
    final, checksum = folder / (name + SUFFIX), 0
    with final.writing() as stream:
        stream.write(_head(checksum))  # replaced at the end, when the checksum is known
        for record in records:
            line = _line(record)
            checksum = zlib.crc32(line, checksum)
            stream.write(line)
        stream.seek(0)
        stream.write(_head(checksum))
    return final


def segment_text(records: Iterable[Record]) -> str:
    """Return the text of a segment that contains these records."""
    lines = b"".join(map(_line, records))
    return (_head(zlib.crc32(lines)) + lines).decode()


def _head(checksum: int) -> bytes:
    """Return the first line of a segment, which has the same length for every checksum."""
    return json.dumps({"kind": _HEAD, "crc32": checksum}).encode().ljust(_HEAD_BYTES) + b"\n"


def _line(record: Record) -> bytes:
    return json.dumps(to_json(record), separators=(",", ":")).encode() + b"\n"


def read_segment(path: Location) -> Iterator[Record]:
    """Yield the records of one segment, in order, after its checksum has been compared.

    Parameters
    ----------
    path : Path or ObjectPath
        The segment's file.

    Raises
    ------
    DamagedSegmentError
        If the segment's content has changed since it was written.
    FileNotFoundError
        If the segment has just been removed, for example by a compaction.
    StoreError
        If the segment cannot be read.
    """
    try:
        with path.reading() as stream:
            first, checksum = stream.readline(), 0
            head = json.loads(first)
            while piece := stream.read(_PIECE_BYTES):
                checksum = zlib.crc32(piece, checksum)
            if (head["kind"], head["crc32"]) != (_HEAD, checksum):
                raise ValueError("its checksum differs")
            stream.seek(len(first))
            for line in stream:
                yield from_json(json.loads(line))
    except OSError as error:
        if isinstance(error, FileNotFoundError) and path.name not in path.parent.names():
            raise
        remedy = "let it be read, or move it away: its cells are then solved again"
        raise unreadable(path, error, remedy) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedSegmentError(
            f"journal segment {str(path)!r} is damaged ({error or type(error).__name__}); restore "
            "it, or let 'sweep run' set it aside and solve its cells again"
        ) from error


def run_of(segment: str) -> str:
    """Return the name of the run that wrote a segment."""
    return "-".join(segment.partition(".")[0].split("-")[:3])
