"""The journal: immutable segments of records, from which everything else is derived.

A segment is a file of JSON lines, written under a temporary name, synchronised to the disk and
renamed, so that it exists whole or not at all, whatever is killed. A long task writes several:
``TASK+...`` while it runs, ``TASK`` when it is done. Names sort in the order of runs. The first
line of a segment holds a checksum of the others, so that a segment that is changed or cut later is
noticed. The first line of a compact segment also names the segments that it replaces; readers
ignore those even if they still exist.

The index beside the journal is the ledger of the segments that are named in it, so that commands
need not read them. It is valid only while every one of these segments has the stamp that it had;
if it is invalid, damaged or of another version, the journal is read, and the next run writes the
index again.
"""

import json
import math
import re
import uuid
import zlib
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from typing import Any

import numpy as np

from sweep.errors import DamagedSegmentError, StoreError
from sweep.store import code
from sweep.store.ledger import Ledger
from sweep.store.places import Location, located
from sweep.store.records import (
    BoundRecord,
    CellRecord,
    ForgottenRecord,
    Record,
    Status,
    from_json,
    to_json,
)

SUFFIX = ".jsonl"
DAMAGED = ".damaged"
COMPACT = "-compact-"
"""Part of the name of every compact segment."""
INDEX = "index.npz"
_INDEX_FORMAT = 7
_FACTS = "facts"
_HEAD = "segment"
_CELL = re.compile(rb'"cell":\s*"([^"]+)"')
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What damaged JSON raises."""


class _ChecksumError(ValueError):
    """The records do not match the checksum."""


class Journal:
    """Reads a folder of segments into a ledger, each segment once.

    Parameters
    ----------
    folder : Path or ObjectPath
        The folder of the segments. Segments that are in the index beside it are not read.

    Attributes
    ----------
    damaged : dict of str to str
        The errors of segments that could not be read, by file name.
    """

    def __init__(self, folder: Location) -> None:
        self.folder = located(folder)
        self.ledger = Ledger()
        self.damaged: dict[str, str] = {}
        self._seen: set[str] = set()
        self._replaced: set[str] = set()
        self._indexed: Mapping[str, str] = {}
        """The stamps of the segments in the index."""
        self._index = self.folder.parent / INDEX
        self._read_index()

    def refresh(self) -> Ledger:
        """Read the segments that are new since the last call into the ledger."""
        try:
            names = self.folder.names()
        except OSError as error:
            raise StoreError(
                f"journal {str(self.folder)!r} cannot be read ({error.strerror}); restore it, or "
                "give another --store"
            ) from error
        self.damaged = {}
        fresh = [name for name in names if name.endswith(SUFFIX) and name not in self._seen]
        for name in fresh:
            if COMPACT in name:
                self._replaced.update(_head(self.folder / name).get("replaces", ()))
        if self._replaced & self._seen:
            return self._read_anew()
        last = run_of(max(self._seen, default=""))
        for name in fresh:
            if name in self._replaced:
                continue
            try:
                records = read_segment(self.folder / name)
            except DamagedSegmentError as error:
                self.damaged[name] = str(error)
                continue
            except StoreError as error:
                if was_removed(self.folder / name, error):
                    return self.refresh()
                raise
            if run_of(name) < last:  # its records are older than those taken in
                return self._read_anew()
            self.ledger.add(records)
            self._seen.add(name)
        return self.ledger

    def _read_anew(self) -> Ledger:
        self.ledger, self._seen = Ledger(), set()
        return self.refresh()

    def take(self, name: str, records: Iterable[Record]) -> None:
        """Add the records of a segment that came in memory, so that its file is not read."""
        if name + SUFFIX not in self._seen:
            self._seen.add(name + SUFFIX)
            self.ledger.add(records)

    def set_aside(self) -> dict[str, Location]:
        """Rename the damaged segments, so that they are kept but no longer read.

        Returns
        -------
        dict of str to Path or ObjectPath
            The new path of each, by its old file name.

        Raises
        ------
        OSError
            If one cannot be renamed.
        """
        kept = {name: self.folder / f"{name}{DAMAGED}" for name in self.damaged}
        for name, path in kept.items():
            (self.folder / name).rename(path)
        self.damaged.clear()
        return kept

    def records(self) -> list[Record]:
        """All records read, oldest first; forgotten ones are reduced to the bounds they prove."""
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
                elif "lower_bound" in record.numbers:
                    bound = float(record.numbers["lower_bound"])
                    certifier = record.code[: code.CERTIFIER_DIGITS]
                    incidental = record.status is not Status.OK
                    kept.append(
                        BoundRecord(record.problem, bound, code=certifier, incidental=incidental)
                    )
        return kept[::-1]

    def compact(self, name: str) -> int:
        """Replace all segments read by a single one.

        Readers find either the old segments or the new one, whenever this is killed. Forgotten
        records are dropped, except for the bounds that they prove.

        Parameters
        ----------
        name : str
            Beginning of the new segment's name; it must sort after all old ones.

        Returns
        -------
        int
            The number of segments before.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        records, count = self.records(), len(self._seen)
        left_by_a_killed_one = self._replaced & set(self.folder.names())
        old = self._seen | left_by_a_killed_one
        compact = f"{name}{COMPACT}{uuid.uuid4().hex[:8]}"
        write_segment(self.folder, compact, records, old, self.made_of)
        for segment in old:
            (self.folder / segment).unlink(missing_ok=True)
        return count

    @property
    def names(self) -> frozenset[str]:
        """File names of the segments read, and of those that compact segments replace."""
        return frozenset(self._seen | self._replaced)

    @property
    def made_of(self) -> Counter[str]:
        """Number of segments of every run that the records come from, compacted ones included."""
        compact = {name for name in self._seen if COMPACT in name}
        counts = Counter[str]()
        for name in compact:
            counts |= made_of(self.folder / name)
        return counts + Counter(map(run_of, self._seen - compact))

    @property
    def state(self) -> str:
        """Number and checksum of the names of the segments read."""
        return f"{len(self._seen)}:{zlib.crc32(' '.join(sorted(self._seen)).encode()):08x}"

    def write_index(self) -> None:
        """Write the index of the segments read, unless it is up to date.

        It is not written if a segment changed after it was read, so that the next command reads
        the journal and reports the damage, nor if the ledger has forgotten a bound.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        if self._seen == self._indexed.keys() or self.ledger.altered:
            return
        now = self.folder.stamps()
        if not self._seen <= now.keys():
            return
        seen = {name: now[name] for name in self._seen}
        fresh = (name for name in seen if seen[name] != self._indexed.get(name))
        if all(_head(self.folder / name) for name in fresh):
            columns, facts = self.ledger.content()
            facts |= {
                "written_by": _writer(),
                "segments": seen,
                "replaced": sorted(self._replaced),
            }
            columns[_FACTS] = np.frombuffer(json.dumps(facts).encode(), np.uint8)
            self._index.write_by(lambda file: np.savez(file, allow_pickle=False, **columns))
            self._indexed = seen

    def _read_index(self) -> None:
        """Start from the index if it is sound and none of its segments has changed."""
        try:
            with self._index.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
                columns = dict(archive)
            facts = json.loads(columns.pop(_FACTS).tobytes())
            now, segments = self.folder.stamps(), facts["segments"]
            if facts["written_by"] != _writer() or not segments.items() <= now.items():
                return
            self.ledger = Ledger.restored(columns, facts)
            self._seen, self._replaced = set(segments), set(facts["replaced"])
            self._indexed = segments
        except Exception:  # missing or damaged, which raises anything: the journal has it all
            return


def _writer() -> list[str | int]:
    """The format of the index and the code, which decides which bounds are valid."""
    return [_INDEX_FORMAT, code.project()]


def write_segment(
    folder: Location,
    name: str,
    records: Iterable[Record],
    replaces: Iterable[str] = (),
    made_of: Mapping[str, int] | None = None,
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
        For a compact segment, the file names of the segments that it replaces.
    made_of : Mapping[str, int], optional
        For a compact segment, the number of segments of every run that its records come from.

    Returns
    -------
    Path or ObjectPath
        The segment's file.

    Raises
    ------
    OSError
        If it cannot be written; nothing is left behind then.
    """
    final = located(folder) / (name + SUFFIX)
    final.write_bytes(segment_text(records, replaces, made_of).encode())
    return final


def segment_text(
    records: Iterable[Record],
    replaces: Iterable[str] = (),
    made_of: Mapping[str, int] | None = None,
) -> str:
    """The content of a segment; parameters as for `write_segment`."""
    lines = "".join(
        json.dumps(_finite(to_json(record)), separators=(",", ":"), allow_nan=False) + "\n"
        for record in records
    )
    facts: dict[str, Any] = {"kind": _HEAD, "crc32": zlib.crc32(lines.encode())}
    header = {"replaces": sorted(replaces), "made_of": made_of}
    facts |= {key: value for key, value in header.items() if value}
    return json.dumps(facts) + "\n" + lines


def read_segment(path: Location, cells: Container[str] | None = None) -> list[Record]:
    """The records of one segment, in order.

    Parameters
    ----------
    path : Path or ObjectPath
        The segment's file.
    cells : container of str, optional
        Return only the records of these cells, without parsing the others.

    Raises
    ------
    DamagedSegmentError
        If its content has changed since it was written.
    StoreError
        If it cannot be read.
    """
    try:
        content = located(path).read_bytes()
    except OSError as error:
        raise StoreError(
            f"journal segment {str(path)!r} cannot be read ({error.strerror}); let it be read, or "
            "move it away: its cells are then solved again"
        ) from error
    try:
        lines = _checked(content)[1].splitlines()
        if cells is not None:
            lines = [line for line in lines if _cell_of(line) in cells]
        return [from_json(json.loads(line)) for line in lines]
    except _UNREADABLE as error:
        problem = str(error) if isinstance(error, _ChecksumError) else type(error).__name__
        raise DamagedSegmentError(
            f"journal segment {str(path)!r} is damaged ({problem}); restore it, or let 'sweep run' "
            "set it aside and solve its cells again"
        ) from error


def was_removed(path: Location, error: StoreError) -> bool:
    """Whether reading a segment failed because a compaction removed it in the meantime."""
    gone = isinstance(error.__cause__, FileNotFoundError)
    return gone and path.name not in path.parent.names()


def made_of(path: Location) -> Counter[str]:
    """Number of segments of every run that a compact segment comes from; none if it is damaged."""
    return Counter(_head(path).get("made_of", {}))


def run_of(segment: str) -> str:
    """The name of the run that wrote a segment."""
    return "-".join(segment.partition(".")[0].split("-")[:3])


def _head(path: Location) -> Mapping[str, Any]:
    """The first line of a segment; empty if the segment is damaged."""
    try:
        return _checked(path.read_bytes())[0]
    except (OSError, *_UNREADABLE):
        return {}


def _cell_of(line: bytes) -> str | None:
    """The cell id in the line of a record, without parsing the line."""
    match = _CELL.search(line)
    return match[1].decode() if match else None


def _checked(content: bytes) -> tuple[dict[str, Any], bytes]:
    """The first line of a segment and the others; an error if they do not match its checksum."""
    first, _, lines = content.partition(b"\n")
    head: dict[str, Any] = json.loads(first)
    if (head["kind"], head["crc32"]) != (_HEAD, zlib.crc32(lines)):
        raise _ChecksumError("its checksum is another")
    return head, lines


def _finite(content: Any) -> Any:
    """The content with NaN and infinite numbers as strings that ``float`` reads."""
    if isinstance(content, dict):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    if isinstance(content, float) and not math.isfinite(content):
        return str(content)
    return content
