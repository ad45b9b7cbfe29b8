"""What every file of a written dataset holds, so that damage done later is noticed.

A manifest lies beside the folder that it describes. Sizes and CRC-32 are no proof against
malice; they find what disks, copies and slips of the hand do.
"""

import json
import zlib
from pathlib import Path

from sweep.store import disk

_CHUNK_BYTES = 2**20


def beside(folder: Path) -> Path:
    """Where the manifest of a folder is."""
    return folder.with_suffix(".json")


def write(folder: Path) -> None:
    """Note every file of a folder: its size and its checksum.

    Raises
    ------
    OSError
        If the disk does not take it.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    noted = {
        path.relative_to(folder).as_posix(): [path.stat().st_size, _checksum(path)]
        for path in files
    }
    disk.write(beside(folder), json.dumps(noted))


def damage(folder: Path) -> str | None:
    """What became of a folder since its manifest was written.

    Returns
    -------
    str or None
        The first file that is gone or holds something else; None if there is none, or if an
        earlier version of this project wrote the folder without a manifest.
    """
    try:
        noted = json.loads(beside(folder).read_text(encoding="utf-8"))
        held = {str(name): (int(size), int(checksum)) for name, (size, checksum) in noted.items()}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, AttributeError):
        return "the list of its files cannot be read"
    for name, (size, checksum) in held.items():
        path = folder / name
        try:
            found = path.stat().st_size
            if found != size:
                return f"file {name!r} holds {found:,} bytes instead of {size:,}"
            if _checksum(path) != checksum:
                return f"file {name!r} holds something else than was written"
        except OSError as error:
            return f"file {name!r} cannot be read ({error.strerror})"
    return None


def _checksum(path: Path) -> int:
    checksum = 0
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            checksum = zlib.crc32(chunk, checksum)
    return checksum
