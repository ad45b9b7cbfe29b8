"""Workers of this machine whose start fails in a sentence, whatever ends it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from distributed import Nanny, Worker

from sweep.errors import ClusterError, first_line


class _Worker(Worker):
    """A worker that can be kept from starting, but whose process is not ended by that.

    Dask expects errors of a preload, and prints tracebacks of what is none, such as SystemExit.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        with _exits_as_errors():
            super().__init__(*arguments, **options)

    async def start_unsafe(self) -> Any:
        untyped: Any = super()
        with _exits_as_errors():
            return await untyped.start_unsafe()


class LocalNanny(Nanny):
    """A nanny of such workers."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{"worker_class": _Worker, **options})


@contextmanager
def _exits_as_errors() -> Iterator[None]:
    try:
        yield
    except SystemExit as error:
        raise ClusterError(f"a preload ended its worker ({first_line(error)})") from error
