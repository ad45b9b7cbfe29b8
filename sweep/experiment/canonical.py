"""The canonical form of values, which identities, hashes and coordinates rest on."""

import hashlib
import json
from typing import Any

Scalar = str | int | float | bool
"""The label of a point along a coordinate."""


def canonical(content: Any) -> str:
    """``content`` as canonical JSON.

    Raises
    ------
    ValueError
        If it holds NaN or an infinite number.
    TypeError
        If it holds a value that JSON cannot represent.
    """
    return json.dumps(
        content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def digest(content: Any) -> str:
    """The `digest_of` ``content`` as canonical JSON; errors as for `canonical`."""
    return digest_of(canonical(content))


def digest_of(text: str) -> str:
    """The first 20 hexadecimal digits of the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def rounded(value: float) -> float:
    """The value rounded to 12 significant digits, as identities and coordinates hold it."""
    return float(f"{value:.12g}")
