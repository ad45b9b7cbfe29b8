"""Programs in processes of their own, with what they print."""

import subprocess
from pathlib import Path
from typing import Any


def ran(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """A program that has ended, whatever its exit code."""
    return subprocess.run(
        list(map(str, words)), capture_output=True, text=True, check=False, timeout=900, **options
    )


def installed(folder: Path, name: str, version: str = "1.0", **files: str) -> Path:
    """What pip leaves of a distribution besides its packages, with these files of it."""
    about = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    about.mkdir(parents=True)
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    for file, content in {"METADATA": metadata, **files}.items():
        (about / file).write_text(content)
    return about
