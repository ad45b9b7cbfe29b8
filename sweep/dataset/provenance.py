"""The software and the machine that computed the numbers: attributes of the dataset."""

import platform
import subprocess
from functools import cache
from pathlib import Path

from sweep.store.code import version_of

_PACKAGES = (
    "fitness-sweep",
    "numpy",
    "scipy",
    "dask",
    "distributed",
    "xarray",
    "zarr",
)


@cache
def describe() -> dict[str, str]:
    """Package versions, git revision, BLAS with its threads, processor and Python."""
    return {
        "package_versions": ", ".join(f"{name} {version_of(name)}" for name in _PACKAGES),
        "dask_version": version_of("dask"),
        "zarr_version": version_of("zarr"),
        "python_version": platform.python_version(),
        "git_revision": revision(),
        "blas": _blas(),
        "cpu_model": _cpu(),
        "platform": platform.platform(),
    }


def revision() -> str:
    """The commit of this checkout, ``-dirty`` if files were changed; or why there is none."""
    folder = Path(__file__).resolve().parents[2]
    if not (folder / ".git").exists():
        return "not a git checkout"
    try:
        git = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return git.stdout.strip()


def _blas() -> str:
    import numpy as np
    from threadpoolctl import threadpool_info

    _ = np.dot
    libraries = {
        f"{library['internal_api']} {library['version']} ({library.get('architecture', 'generic')})"
        for library in threadpool_info()
        if library["user_api"] == "blas"
    }
    return ", ".join(sorted(libraries)) or "unknown"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
