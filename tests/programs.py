"""Programs in processes of their own, with what they print."""

import shutil
import subprocess
from pathlib import Path
from typing import Any


def ran(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """A program that has ended, whatever its exit code."""
    return subprocess.run(
        list(map(str, words)), capture_output=True, text=True, check=False, timeout=900, **options
    )


def daemon(name: str) -> str | None:
    """The path of a program, which may be one that only the system starts."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


def absent(packages: str, *names: str) -> str:
    """Which of these programs are not there, and in which Debian packages they are."""
    lost = [name for name in names if daemon(name) is None]
    return f"no {', '.join(lost)} (Debian: {packages})" if lost else ""


def script(path: Path, lines: str) -> None:
    """Write a shell script that can be started."""
    path.write_text(f"#!/bin/sh\n{lines}\n")
    path.chmod(0o755)


def installed(folder: Path, name: str, version: str = "1.0", **files: str) -> Path:
    """What pip leaves of a distribution besides its packages, with these files of it."""
    about = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    about.mkdir(parents=True)
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    for file, content in {"METADATA": metadata, **files}.items():
        (about / file).write_text(content)
    return about
