"""Files that people ask for."""

from pathlib import Path

from sweep.errors import SweepError


def write(path: Path, content: str | bytes) -> None:
    """Write a file, and its folder where there is none.

    Raises
    ------
    SweepError
        If it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise SweepError(
            f"cannot write {str(path)!r}: {error.strerror or error}; give another --output"
        ) from error
