"""Files that an experiment names: a cell is identified by what they hold, not by where they are."""

import hashlib
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workloads import WorkloadError, priors
from workloads.parameters import FilePath, FunctionName, PriorText


class File(str):
    """A parameter that names a file, as written, with the hash of what the file held.

    Attributes
    ----------
    path : str
        Where the file is, from the folder in which the command runs.
    sha256 : str
        64 hexadecimal digits.
    """

    path: str
    sha256: str

    def __new__(cls, written: str, path: str, sha256: str) -> "File":
        """The text ``written``, remembering ``path`` and ``sha256``."""
        made = super().__new__(cls, written)
        made.path, made.sha256 = path, sha256
        return made

    def __reduce__(self) -> tuple[type["File"], tuple[str, str, str]]:
        return File, (str(self), self.path, self.sha256)


def located(value: str, expected: tuple[Any, ...]) -> str:
    """The value, as a `File` if one of the types ``expected`` says that it names one.

    A file that cannot be read stays a plain text: building what needs it says why.
    """
    if isinstance(value, File):
        return value
    path = _path(value, expected)
    if path is None:
        return value
    try:
        return File(value, path, _hashed(path))
    except OSError:
        return value


def identity(value: Any) -> Any:
    """The JSON-like value with the content of every file instead of its path."""
    if isinstance(value, File):
        return {"sha256": value.sha256}
    if isinstance(value, Mapping):
        return {name: identity(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [identity(one) for one in value]
    return value


def check_unchanged(params: Mapping[str, Any]) -> None:
    """Refuse a file that holds something else here and now than when the sweep began.

    Raises
    ------
    WorkloadError
        If its hash differs. A file that cannot be read is left to what reads it.
    """
    for file in params.values():
        if not isinstance(file, File):
            continue
        try:
            unchanged = _hashed(file.path) == file.sha256
        except OSError:
            continue
        if not unchanged:
            raise WorkloadError(
                f"file {file.path!r} does not hold what it held when the sweep began; give every "
                "worker the same file and run the experiment again"
            )


def _path(value: str, expected: tuple[Any, ...]) -> str | None:
    if FilePath in expected:
        return value
    if FunctionName in expected:
        return _module_file(value.partition(":")[0])
    return priors.path_of(value) if PriorText in expected else None


def _module_file(name: str) -> str | None:
    """The source of a module; None where there is none, or finding it fails."""
    try:
        found = importlib.util.find_spec(name)
    except Exception:
        return None
    return found.origin if found is not None and found.has_location else None


def _hashed(path: str) -> str:
    with Path(path).expanduser().open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
