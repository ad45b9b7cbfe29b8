"""Content in one form: what identities, hashes and coordinates are made of."""

import hashlib
import json
from typing import Any

Scalar = str | int | float | bool
"""What a coordinate holds."""


def digest(content: Any) -> str:
    """The first 20 hexadecimal digits of the SHA-256 of ``content`` as canonical JSON.

    Raises
    ------
    ValueError
        If it holds NaN or an infinite number.
    TypeError
        If it holds something that JSON has no form for.
    """
    text = json.dumps(
        content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def rounded(value: float) -> float:
    """The value with 12 significant digits, as identities and coordinates hold it."""
    return float(f"{value:.12g}")
