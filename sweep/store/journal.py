"""The journal: immutable segments of records, the truth that the dataset is derived from."""

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
    """A ledger and the segments that it was made of, so that commands need not read these.

    It is derived and never a truth of its own: it counts only while each segment has its stamp.
    Whatever is wrong with it, the journal is read instead, and the next run writes it again.
    """

    ledger: Ledger
    segments: Mapping[str, str]
    replaced: frozenset[str] = frozenset()


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
        self.folder = located(folder)
        self.ledger = Ledger()
        self.damaged: dict[str, str] = {}
        self._seen: set[str] = set()
        self._replaced: set[str] = set()
        self._indexed: Mapping[str, str] = {}
        self._index = self.folder.parent / INDEX
        self._look_up()

    def _look_up(self) -> None:
        """Begin with the index, if every segment that it holds is as it was."""
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
        now = self.folder.stamps()
        if not self._seen <= now.keys():
            return
        seen = {name: now[name] for name in self._seen}
        unproven = (name for name in seen if seen[name] != self._indexed.get(name))
        if all(segments.is_sound(self.folder / name) for name in unproven):
            _write_index(self._index, _Index(self.ledger, seen, frozenset(self._replaced)))
            self._indexed = seen

    def refresh(self) -> Ledger:
        """Take in the segments that are new since the last call."""
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
            Where each of them is now, by file name.

        Raises
        ------
        OSError
            If the disk does not take it.
        """
        kept = {name: self.folder / f"{name}{segments.DAMAGED}" for name in self.damaged}
        for name, path in kept.items():
            (self.folder / name).rename(path)
        self.damaged.clear()
        return kept

    def take(self, name: str, records: Iterable[Record]) -> None:
        """Take in a segment that its writer has also handed over in memory."""
        if name + segments.SUFFIX not in self._seen:
            self._seen.add(name + segments.SUFFIX)
            self.ledger.add(records)

    def records(self) -> list[Record]:
        """All records taken in, oldest first, of those that are forgotten only the bounds."""
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
        """Put the records of all segments taken in into one, and remove these.

        A reader finds either the old segments or the new one, whenever this is killed. Records
        that are forgotten are gone then, but for the bounds that they prove.

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
        """File names of the segments taken in, and of those that a compact one replaces."""
        return frozenset(self._seen | self._replaced)

    @property
    def made_of(self) -> Counter[str]:
        """Number of segments of every run that the records come from, those made compact too."""
        compact = {name for name in self._seen if segments.COMPACT in name}
        counts = Counter[str]()
        for name in compact:
            counts |= segments.made_of(self.folder / name)
        return counts + Counter(map(segments.run_of, self._seen - compact))

    @property
    def state(self) -> str:
        """Number and checksum of the names of the segments taken in."""
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
    """The index in a file; None if there is none that this version has written, undamaged."""
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
    """The code whose ledger it is: bounds are judged by the solvers."""
    return [_INDEX_FORMAT, code.project()]
