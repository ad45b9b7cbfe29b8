"""How much memory there is, so that what does not fit is refused before it is built."""

import os

from workloads.operators import LARGEST_MATRIX_BYTES


def installed() -> float:
    """Bytes of memory of this machine; 8 GiB where it does not tell."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return float(LARGEST_MATRIX_BYTES)


def trouble(planned: float) -> str | None:
    """What is wrong with a plan to take so many bytes; None if they fit."""
    most = installed()
    if planned <= most:
        return None
    return f"about {readable_bytes(planned)} of memory, and this machine has {readable_bytes(most)}"


def readable_bytes(count: float) -> str:
    """A number of bytes in GiB, for a message."""
    whole = count / 2**30
    return f"{whole:.3g} GiB" if whole < 1e6 else f"{whole:.0e} GiB"
