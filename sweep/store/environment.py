"""The software and the machine: versions of packages, git revision, BLAS library and processor."""

import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

NUMERIC = ("numpy", "scipy")
"""The packages on which a solve's numbers depend."""
_NEEDED = (*NUMERIC, "dask", "distributed")
_OF_DATASETS = ("fitness-sweep", *_NEEDED, "xarray", "zarr")


@cache
def list_versions(packages: tuple[str, ...] = _NEEDED) -> str:
    """Return the versions of Python and of packages, by default all that workers need, as a text.

    Every record contains this text for the packages `NUMERIC`.
    """
    listed = (f"{package} {version_of(package)}" for package in packages)
    return ", ".join([f"python {platform.python_version()}", *listed])


def version_of(package: str) -> str:
    """Return the version of a package; ``unknown`` if the package is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


@cache
def describe() -> dict[str, str]:
    """Return the dataset attributes that describe the software and the machine.

    These are the versions of Python and of packages, the git revision, the BLAS library, the
    processor and the platform.
    """
    return {
        "package_versions": ", ".join(f"{name} {version_of(name)}" for name in _OF_DATASETS),
        "dask_version": version_of("dask"),
        "zarr_version": version_of("zarr"),
        "python_version": platform.python_version(),
        "git_revision": git_revision(),
        "blas": _blas(),
        "cpu_model": _cpu(),
        "platform": platform.platform(),
    }


def git_revision() -> str:
    """Return the commit of this checkout, ending in ``-dirty`` if there are uncommitted changes.

    The result is ``not a git checkout`` if the project was installed without its repository, and
    ``unknown`` if git fails.
    """
    folder = Path(__file__).resolve().parents[2]
    if not (folder / ".git").exists():
        return "not a git checkout"
    git = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        return subprocess.check_output(git, stderr=subprocess.DEVNULL, text=True, timeout=5).strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def _blas() -> str:
    from threadpoolctl import threadpool_info  # finds the BLAS that numpy has loaded

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
