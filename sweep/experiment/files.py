"""Shipped experiments, and the files that experiments refer to.

A cell's identity depends on the content of these files, not on their paths.
"""

import hashlib
import os
import re
import sys
from collections.abc import Collection, Mapping
from importlib import resources
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sweep.errors import SweepError
from workloads import WorkloadError, priors
from workloads.parameters import (
    LARGEST_TEXT_BYTES,
    FilePath,
    FunctionName,
    PriorText,
    read_text,
    regular,
)

SHIPPED = "sweep.experiments"
"""The package that contains the shipped experiments."""


class File(str):
    """A parameter value that names a file, with the hash of the file's content.

    Attributes
    ----------
    path : str
        The file's absolute path.
    sha256 : str
        SHA-256 hash of the content when the experiment was loaded, 64 hexadecimal digits.
    rooted : str
        The parameter value with the file's absolute path in place of the path as written, for
        processes that run in other folders.
    """

    path: str
    sha256: str
    rooted: str


def as_file(value: str, expected: Collection[object]) -> str:
    """Return a parameter value, as a `File` if its type says that it names a file.

    ``expected`` contains the types that the parameter accepts.

    Raises
    ------
    WorkloadError
        If the file cannot be read.
    """
    if isinstance(value, File):
        return value
    path: str | None = value if FilePath in expected else None
    if FunctionName in expected:
        path = find_module_file(value.partition(":")[0])
    elif PriorText in expected:
        path = priors.path_of(value)
    if path is None:
        return value
    try:
        file = File(value)
        file.path = os.path.abspath(Path(path).expanduser())
        file.sha256 = _hash_file(file.path)
        file.rooted = value.removesuffix(path) + file.path if value.endswith(path) else value
        return file
    except (OSError, ValueError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise WorkloadError(
            f"file {value!r} cannot be read ({reason}); give the path of a file, relative to "
            "the folder in which the command runs"
        ) from None


def read_text_file(
    what: str,
    path: str | Path,
    advice: str,
    error: type[SweepError] = SweepError,
    most: int = LARGEST_TEXT_BYTES,
) -> str:
    """Return the text of a file of at most ``most`` bytes; `read_text` explains the parameters.

    Raises
    ------
    SweepError
        If the file cannot be read; ``error`` is the type of the exception.
    """
    try:
        return read_text(what, str(path), advice, most)
    except WorkloadError as cause:
        raise error(str(cause)) from None


def identify(value: object) -> object:
    """Return a value in JSON-like form, with each `File` replaced by the hash of its content."""
    if isinstance(value, File):
        return {"sha256": value.sha256}
    if isinstance(value, Mapping):
        return {name: identify(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [identify(item) for item in value]
    return value


def root_files(params: Mapping[str, object]) -> dict[str, Any]:
    """Return the parameters with file paths that are valid in the folder of this process.

    If the file still exists at its absolute path, that path is used; otherwise the path as written.

    Raises
    ------
    WorkloadError
        If a file's content has changed since the sweep began. A file that cannot be read causes
        no error here, because the code that reads it later gives a better message.
    """
    return {name: _root_value(v) if isinstance(v, File) else v for name, v in params.items()}


def _root_value(file: File) -> str:
    there = os.path.exists(file.path)
    path = file.path if there else str(file).removeprefix(file.rooted.removesuffix(file.path))
    try:
        unchanged = _hash_file(path) == file.sha256
    except OSError:
        return file
    if not unchanged:
        raise WorkloadError(
            f"file {path!r} has changed since the sweep began; give every worker the same "
            "file and run the experiment again"
        )
    return file.rooted if there else file


def find_module_file(name: str) -> str | None:
    """Return the source file of a module; None if it has no source file or cannot be found.

    Nothing is imported, not even the packages that contain the module.
    """
    imported, (top, *inner) = sys.modules.get(name), name.split(".")
    try:
        if imported is not None:
            spec = imported.__spec__
        else:
            spec = find_spec(top) or PathFinder.find_spec(top, [os.getcwd()])
    except Exception:
        return None
    if spec is None or not inner or imported is not None:
        return spec.origin if spec is not None and spec.has_location else None
    places = [Path(folder, *inner) for folder in spec.submodule_search_locations or ()]
    files = [file for at in places for file in (at / "__init__.py", at.with_suffix(".py"))]
    return next((str(file) for file in files if file.is_file()), None)


def _hash_file(path: str) -> str:
    with regular(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def list_experiments() -> Mapping[str, str]:
    """Return the titles of the shipped experiments by name; table9 precedes table10.

    Only the line of the title is read, so a title must be on one line.
    """
    titles = {}
    for file in resources.files(SHIPPED).iterdir():
        if file.name.endswith(".yaml"):
            title = re.search(r"^title: (.*)$", file.read_text("utf-8"), re.MULTILINE)
            titles[file.name.removesuffix(".yaml")] = title[1].strip("'\"") if title else ""

    def parts(name: str) -> list[str | int]:
        return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]

    return {name: titles[name] for name in sorted(titles, key=parts)}
