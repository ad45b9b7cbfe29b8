"""The index: what a journal's segments say together, kept so that commands need not read them.

It is derived from the journal and never a truth of its own: it names the segments that it holds,
and counts only while each of them is as it was. Whatever is wrong with it, the journal is read
instead, and the next run writes it anew.
"""

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import BinaryIO

import numpy as np

from sweep.store import code
from sweep.store.ledger import Ledger
from sweep.store.places import Location

NAME = "index.npz"
_FORMAT = 5
_FACTS = "facts"


@dataclass(frozen=True)
class Index:
    """A ledger, and the segments that it was made of.

    Attributes
    ----------
    ledger : Ledger
        What they say.
    segments : Mapping[str, str]
        For each of their file names, what changes when it is written anew (`DiskPath.stamps`).
    replaced : frozenset of str
        File names of the segments that compact ones among them replace.
    """

    ledger: Ledger
    segments: Mapping[str, str]
    replaced: frozenset[str] = frozenset()


def write(file: Location, index: Index) -> None:
    """Write an index, whole or not at all.

    Raises
    ------
    OSError
        If it cannot be written.
    """
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


def read(file: Location) -> Index | None:
    """The index in a file; None if there is none that this version has written, undamaged."""
    try:
        with file.opened() as stream, np.load(stream, allow_pickle=False) as arrays:
            facts = json.loads(arrays[_FACTS].tobytes())
            if facts["written_by"] != _writer():
                return None
            ledger = Ledger.restored(arrays, facts)
            return Index(ledger, facts["segments"], frozenset(facts["replaced"]))
    except Exception:
        return None


def _writer() -> list[str | int]:
    """The code whose ledger it is: bounds are judged by the solvers."""
    return [_FORMAT, code.project()]
