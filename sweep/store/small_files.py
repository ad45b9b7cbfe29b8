"""The small JSON files of a store, each read by a schema.

A file that was damaged or made by another program then ends in one sentence, whatever it holds:
brackets nested without end, other types, numbers that are not finite.
"""

from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from sweep.errors import StoreError
from sweep.store.places import Location, reason

Content = TypeVar("Content")


@cache
def _adapter(schema: Any) -> TypeAdapter[Any]:
    return TypeAdapter(schema)


def parsed(content: bytes | str, schema: type[Content]) -> Content:
    """The content of a small file.

    Parameters
    ----------
    content : bytes or str
        JSON.
    schema : type
        A dataclass, or any other type that pydantic validates.

    Raises
    ------
    ValueError
        If it is something else; one line.
    """
    kind: Any = schema
    try:
        found: Content = _adapter(kind).validate_python(from_json(content, allow_inf_nan=False))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place}: {first['msg']}" if place else first["msg"]) from None
    return found


def read(file: Location, schema: type[Content]) -> Content:
    """The content of a small file of a store.

    Raises
    ------
    StoreError
        If it cannot be read, or holds something else.
    """
    try:
        return parsed(file.read_bytes(), schema)
    except (OSError, ValueError) as error:
        raise unreadable(file, error) from error


def unreadable(file: Location, error: OSError | ValueError) -> StoreError:
    """The error for a file of a store that cannot be read."""
    cause = reason(error) if isinstance(error, OSError) else error
    return StoreError(
        f"{str(file)!r} cannot be read ({cause}); move it away and run the experiment again "
        "with this store, which writes it anew"
    )
