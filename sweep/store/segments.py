"""Segments: files of records, each written by one task and never changed.

A segment is a file of JSON lines, written under a temporary name, synchronised to the disk and
renamed, so that it exists whole or not at all, whatever is killed. A long task writes several:
``TASK+...`` while it runs, ``TASK`` when it is done. Names sort in the order of runs. The first
line of a segment holds a checksum of the others, so that a segment that is changed or cut later is
noticed. The first line of a compact segment also names the segments that it replaces; readers
ignore those even if they still exist.
"""

import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from typing import Any

from sweep.errors import DamagedSegmentError, StoreError
from sweep.store.places import Location, located
from sweep.store.records import Record, from_json, to_json

SUFFIX = ".jsonl"
DAMAGED = ".damaged"
COMPACT = "-compact-"
"""Part of the name of every compact segment."""
_HEAD = "segment"
_CELL = re.compile(rb'"cell":\s*"([^"]+)"')


class _ChecksumError(ValueError):
    """The records do not match the checksum."""


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
        lines = _checked(content).splitlines()
        if cells is not None:
            lines = [line for line in lines if _cell_of(line) in cells]
        return [from_json(json.loads(line)) for line in lines]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        problem = str(error) if isinstance(error, _ChecksumError) else type(error).__name__
        raise DamagedSegmentError(
            f"journal segment {str(path)!r} is damaged ({problem}); restore it, or let 'sweep run' "
            "set it aside and solve its cells again"
        ) from error


def was_removed(path: Location, error: StoreError) -> bool:
    """Whether reading a segment failed because a compaction removed it in the meantime."""
    gone = isinstance(error.__cause__, FileNotFoundError)
    return gone and path.name not in path.parent.names()


def replaced_by(path: Location) -> frozenset[str]:
    """File names of the segments that a compact segment replaces; none if it is damaged."""
    return frozenset(_head(path).get("replaces", ()))


def made_of(path: Location) -> Counter[str]:
    """Number of segments of every run that a compact segment comes from; none if it is damaged."""
    return Counter(_head(path).get("made_of", {}))


def run_of(segment: str) -> str:
    """The name of the run that wrote a segment."""
    return "-".join(segment.partition(".")[0].split("-")[:3])


def _head(path: Location) -> Mapping[str, Any]:
    """The first line of a segment; empty if it is damaged."""
    try:
        _checked(content := path.read_bytes())
        head: dict[str, Any] = json.loads(content.partition(b"\n")[0])
        return head
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def is_sound(segment: Location) -> bool:
    """Whether a segment matches its checksum."""
    try:
        _checked(segment.read_bytes())
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return True


def _cell_of(line: bytes) -> str | None:
    """The cell id in the line of a record, without parsing the line."""
    match = _CELL.search(line)
    return match[1].decode() if match else None


def _checked(content: bytes) -> bytes:
    """The lines of a segment after the first; an error if they do not match its checksum."""
    head, _, lines = content.partition(b"\n")
    header = json.loads(head)
    if (header["kind"], header["crc32"]) != (_HEAD, zlib.crc32(lines)):
        raise _ChecksumError("its checksum is another")
    return lines


def _finite(content: Any) -> Any:
    """The content with NaN and infinite numbers as strings that ``float`` reads."""
    if isinstance(content, dict):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    if isinstance(content, float) and not math.isfinite(content):
        return str(content)
    return content
