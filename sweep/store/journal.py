"""The journal: immutable segments of records, from which everything else is derived."""

import json
import uuid
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import BinaryIO

import numpy as np

from sweep.errors import DamagedSegmentError, StoreError
from sweep.store import code, segments
from sweep.store.ledger import Ledger
from sweep.store.places import Location, located
from sweep.store.records import BoundRecord, CellRecord, ForgottenRecord, Record, Status

INDEX = "index.npz"
_INDEX_FORMAT = 6
_FACTS = "facts"


@dataclass(frozen=True)
class _Index:
    """A ledger and the segments that it was made from, which commands then need not read.

    It is valid only while every segment has the stamp noted here. If it is invalid or damaged, the
    journal is read instead, and the next run writes the index again.
    """

    ledger: Ledger
    segments: Mapping[str, str]
    replaced: frozenset[str] = frozenset()


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
        self._index = self.folder.parent / INDEX
        self._look_up()

    def _look_up(self) -> None:
        """Start from the index if none of its segments has changed."""
        content = _read_index(self._index)
        if content is None:
            return
        try:
            now = self.folder.stamps()
        except OSError:
            return
        if all(now.get(name) == stamp for name, stamp in content.segments.items()):
            self.ledger = content.ledger
            self._seen, self._replaced = set(content.segments), set(content.replaced)
            self._indexed = content.segments

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
        unproven = (name for name in seen if seen[name] != self._indexed.get(name))
        if all(segments.is_sound(self.folder / name) for name in unproven):
            _write_index(self._index, _Index(self.ledger, seen, frozenset(self._replaced)))
            self._indexed = seen

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
        fresh = [
            name for name in names if name.endswith(segments.SUFFIX) and name not in self._seen
        ]
        for name in fresh:
            if segments.COMPACT in name:
                self._replaced |= segments.replaced_by(self.folder / name)
        fresh = [name for name in fresh if name not in self._replaced]
        if self._replaced & self._seen:
            return self._anew()
        last = segments.run_of(max(self._seen, default=""))
        for name in fresh:
            try:
                records = segments.read_segment(self.folder / name)
            except DamagedSegmentError as error:
                self.damaged[name] = str(error)
                continue
            except StoreError as error:
                if segments.was_removed(self.folder / name, error):
                    return self.refresh()
                raise
            if segments.run_of(name) < last:  # its records are older than those taken in
                return self._anew()
            self.ledger.add(records)
            self._seen.add(name)
        return self.ledger

    def _anew(self) -> Ledger:
        self.ledger, self._seen = Ledger(), set()
        return self.refresh()

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
        kept = {name: self.folder / f"{name}{segments.DAMAGED}" for name in self.damaged}
        for name, path in kept.items():
            (self.folder / name).rename(path)
        self.damaged.clear()
        return kept

    def take(self, name: str, records: Iterable[Record]) -> None:
        """Add the records of a segment that came in memory, so that its file is not read."""
        if name + segments.SUFFIX not in self._seen:
            self._seen.add(name + segments.SUFFIX)
            self.ledger.add(records)

    def records(self) -> list[Record]:
        """All records read, oldest first; forgotten ones are reduced to the bounds they prove."""
        kept: list[Record] = []
        forgotten: set[str] = set()
        for name in sorted(self._seen, reverse=True):
            try:
                held = segments.read_segment(self.folder / name)
            except StoreError as error:
                if segments.was_removed(self.folder / name, error):
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
                    ended = record.status is Status.OK
                    kept.append(
                        BoundRecord(
                            record.problem,
                            bound,
                            code=record.code[: code.CERTIFIER_DIGITS],
                            incidental=not ended,
                        )
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
        compact = f"{name}{segments.COMPACT}{uuid.uuid4().hex[:8]}"
        segments.write_segment(self.folder, compact, records, old, self.made_of)
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
        compact = {name for name in self._seen if segments.COMPACT in name}
        counts = Counter[str]()
        for name in compact:
            counts |= segments.made_of(self.folder / name)
        return counts + Counter(map(segments.run_of, self._seen - compact))

    @property
    def state(self) -> str:
        """Number and checksum of the names of the segments read."""
        return f"{len(self._seen)}:{zlib.crc32(' '.join(sorted(self._seen)).encode()):08x}"


def _write_index(file: Location, index: _Index) -> None:
    """Write an index, whole or not at all."""
    facts = {
        **index.ledger.content(),
        "written_by": _writer(),
        "segments": dict(index.segments),
        "replaced": sorted(index.replaced),
    }
    encoded = np.frombuffer(json.dumps(facts).encode(), np.uint8)

    def save(stream: BinaryIO) -> int:
        with zipfile.ZipFile(stream, "w") as archive:
            for name, array in chain([(_FACTS, encoded)], index.ledger.arrays()):
                with archive.open(f"{name}.npy", "w", force_zip64=True) as held:
                    np.lib.format.write_array(held, array, allow_pickle=False)
        return stream.tell()

    file.write_by(save)


def _read_index(file: Location) -> _Index | None:
    """The index in a file; None if it is missing, damaged or of another version."""
    try:
        with file.opened() as stream, np.load(stream, allow_pickle=False) as arrays:
            facts = json.loads(arrays[_FACTS].tobytes())
            if facts["written_by"] != _writer():
                return None
            ledger = Ledger.restored(arrays, facts)
            return _Index(ledger, facts["segments"], frozenset(facts["replaced"]))
    except Exception:
        return None


def _writer() -> list[str | int]:
    """The format and the code of the ledger; the solvers' code decides which bounds are valid."""
    return [_INDEX_FORMAT, code.project()]
