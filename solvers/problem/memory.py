"""The memory that this process may use: a solve that needs more is refused before it starts.

The limit is the installed memory, or the limit of a container or batch job if that is lower. The
memory that is currently free does not matter, because a refusal is stored as a result and must not
depend on other processes.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from workloads.operators import LARGEST_MATRIX_BYTES

_GROUPS_OF_PROCESS = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")


@cache
def usable() -> float:
    """Bytes of memory that this process may use; 8 GiB if the system does not report it."""
    groups, installed = "", float(LARGEST_MATRIX_BYTES)
    with suppress(OSError):
        groups = _GROUPS_OF_PROCESS.read_text(encoding="utf-8")
    with suppress(AttributeError, ValueError, OSError):
        installed = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min([installed, *limits_of_groups(groups, _GROUPS)])


def limits_of_groups(groups: str, mounted: Path) -> Iterator[float]:
    """Yield the memory limits of a process's control groups and of their parent groups.

    Parameters
    ----------
    groups : str
        The lines ``number:controllers:path`` of ``/proc/self/cgroup``; ``controllers`` is empty in
        version 2 of control groups.
    mounted : Path
        Mount point of the groups; in version 1 the memory groups are in its folder ``memory``.

    Yields
    ------
    float
        A limit in bytes.
    """
    for line in groups.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root = mounted / "memory" if controllers else mounted
        name = "memory.limit_in_bytes" if controllers else "memory.max"
        inner = root / path.lstrip("/")
        for folder in (inner, *inner.parents):
            if folder.is_relative_to(root):
                with suppress(OSError):  # inside a container there may be no such file
                    text = (folder / name).read_text(encoding="utf-8").strip()
                    if text.isdigit():  # otherwise "max"
                        yield float(text)


def shortage(planned: float) -> str | None:
    """Return a message if ``planned`` bytes do not fit into memory, otherwise None."""
    most = usable()
    if planned <= most:
        return None
    room = readable_bytes(most)
    return f"about {readable_bytes(planned)} of memory, and there is room for {room}"


def readable_bytes(count: float) -> str:
    """Write a number of bytes in GiB, for a message."""
    whole = count / 2**30
    digits = ".3g" if whole < 1e3 else ".0f" if whole < 1e6 else ".0e"
    return f"{whole:{digits}} GiB"
