"""Files that users ask for."""

from pathlib import Path

from sweep.errors import SweepError


def write(path: Path, content: str | bytes) -> None:
    """Write a file, creating its folder if necessary.

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
