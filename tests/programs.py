"""Programs in processes of their own, with what they print."""

import subprocess
from typing import Any


def ran(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """A program that has ended, whatever its exit code."""
    return subprocess.run(
        list(map(str, words)), capture_output=True, text=True, check=False, timeout=900, **options
    )
