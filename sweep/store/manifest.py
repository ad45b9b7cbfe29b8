"""Size and checksum of every file of a written dataset, so that later damage is noticed.

A manifest lies beside the folder that it describes. Sizes and CRC-32 do not protect against
malice; they detect damage by disks, copying and accidents.
"""

import json
import zlib

from sweep.store import disk
from sweep.store.location import Location

_CHUNK_BYTES = 2**20


def beside(folder: Location) -> Location:
    """The path of a folder's manifest."""
    return folder.with_suffix(".json")


def write(folder: Location) -> None:
    """Write the manifest of a folder: size and checksum of every file.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    noted = {
        str(path)[len(str(folder)) + 1 :]: list(_size_and_checksum(path))
        for path in disk.files(folder)
    }
    disk.write(beside(folder), json.dumps(noted))


def damage(folder: Location) -> str | None:
    """The first difference between a folder and its manifest.

    Returns
    -------
    str or None
        A sentence about the first file that is missing or has changed; None if there is none,
        or if an earlier version of this project wrote the folder without a manifest.
    """
    try:
        noted = json.loads(disk.text(beside(folder)))
        held = {str(name): (int(size), int(checksum)) for name, (size, checksum) in noted.items()}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, AttributeError):
        return "the list of its files cannot be read"
    for name, (size, checksum) in held.items():
        path = folder / name
        try:
            actual, its_checksum = _size_and_checksum(path)
            if actual != size:
                return f"file {name!r} holds {actual:,} bytes instead of {size:,}"
            if its_checksum != checksum:
                return f"file {name!r} has changed since it was written"
        except OSError as error:
            return f"file {name!r} cannot be read ({error.strerror})"
    return None


def _size_and_checksum(path: Location) -> tuple[int, int]:
    checksum = 0
    with disk.opened(path) as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            checksum = zlib.crc32(chunk, checksum)
        return stream.tell(), checksum
