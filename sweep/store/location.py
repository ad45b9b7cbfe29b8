"""Where a store is: a folder of a local or shared disk, or a prefix of an object store."""

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sweep.errors import StoreError
from sweep.store.objects import ObjectPath

Location = Path | ObjectPath

_ADDRESS = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):/+(?=[^/]|$)")
_OBJECT_STORES = ("s3", "gs", "az", "abfs", "abfss")


def located(written: "str | Path | ObjectPath") -> Location:
    """The location of a path or an address.

    Parameters
    ----------
    written : str, Path or ObjectPath
        A folder, or ``s3://BUCKET/PREFIX``, ``gs://...``, ``az://CONTAINER/...`` or
        ``file:///...``; also as a `Path`, which turns the two slashes into one.

    Raises
    ------
    StoreError
        If it is empty or an address of another kind, or names no bucket.
    """
    if isinstance(written, ObjectPath):
        return written
    if not str(written).strip():
        raise StoreError("the store has an empty name; give a folder or an address")
    match = _ADDRESS.match(str(written))
    if match is None:
        return Path(written)
    scheme, rest = match[1].lower(), str(written)[match.end() :]
    if scheme == "file":
        return Path("/" + unquote(rest))
    address = f"{scheme}://{rest}"
    if scheme not in _OBJECT_STORES:
        raise StoreError(
            f"store {address!r} is not a valid address; expected a folder, or an "
            "address that begins with s3://, gs:// or az://"
        )
    parts = urlsplit(address)
    if not parts.netloc:
        raise StoreError(f"store {address!r} names no bucket; expected {scheme}://BUCKET/PREFIX")
    if parts.query or parts.fragment:
        raise StoreError(
            f"store {address!r} has a '?' or '#'; expected {scheme}://BUCKET/PREFIX, and "
            "credentials in the environment"
        )
    return ObjectPath(f"{scheme}://{parts.netloc}", parts.path)
