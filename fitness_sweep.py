"""The entry point of the command ``sweep``, in the one module whose name no other project has.

Other distributions also own the names ``sweep``, ``solvers`` and ``workloads``, and a user's folder
may contain a ``solvers.py``. Python imports whichever it finds first; `find_strangers` checks that
beforehand.
"""

import base64
import hashlib
import sys
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("workloads", "solvers", "sweep")
DISTRIBUTION = "fitness-sweep"
_BAD_INPUT, _INTERRUPTED = 2, 130


def find_strangers(home: Path) -> Iterator[str]:
    """Yield a sentence for each package of ours that another replaces, and what to do about it.

    Parameters
    ----------
    home : Path
        The folder that contains this project's packages.
    """
    for package in PACKAGES:
        expected = home / package / "__init__.py"
        imported = _find_file(package)
        if imported is None:
            yield (
                f"package {package!r} is missing: {str(expected)!r} does not exist; install "
                f"{DISTRIBUTION} again"
            )
        elif imported.resolve() != expected.resolve():
            yield (
                f"{str(imported)!r} is imported as {package!r} in place of this project's "
                f"{str(expected)!r}: {_suggest_remedy(package, imported)}"
            )
        elif (owner := _find_overwriter(package)) is not None:
            yield (
                f"{str(imported)!r} was overwritten by distribution {owner!r}: uninstall "
                f"{owner} and install {DISTRIBUTION} again, or give each an environment of its own"
            )


def check(home: Path) -> None:
    """Raise ImportError with a sentence if a package under ``home`` is not the one imported."""
    for sentence in find_strangers(home):
        raise ImportError(sentence)


def main() -> None:
    """Run the command line, or end with exit code 2 if it would import other code."""
    try:
        for sentence in find_strangers(Path(__file__).parent):
            print(f"error: {sentence}", file=sys.stderr)
            raise SystemExit(_BAD_INPUT)
        from sweep.cli import main as command

        command()
    except KeyboardInterrupt:  # during the imports
        print("interrupted", file=sys.stderr)
        raise SystemExit(_INTERRUPTED) from None


def _find_file(package: str) -> Path | None:
    """The file that ``import package`` runs or has run; a folder if it has no ``__init__.py``."""
    file = getattr(sys.modules.get(package), "__file__", None)
    if file is not None:
        return Path(file)
    try:
        spec = find_spec(package)
    except ValueError:  # a module that was created by hand
        return None
    if spec is None:
        return None
    if spec.origin is not None:
        return Path(spec.origin)
    folders = list(spec.submodule_search_locations or ())
    return Path(folders[0]) if folders else None


def _suggest_remedy(package: str, found: Path) -> str:
    owners = [name for name in _find_owners(package) if _contains(name, found)]
    if owners:
        return f"it belongs to distribution {owners[0]!r}; uninstall it, or use another environment"
    return "rename it, or take its folder off Python's path (another working folder, PYTHONPATH)"


def _find_owners(package: str) -> list[str]:
    """Other distributions that install this package."""
    distributions = metadata.packages_distributions().get(package, ())
    return sorted({name for name in distributions if name != DISTRIBUTION})


def _contains(distribution: str, file: Path) -> bool:
    files = metadata.files(distribution) or []
    return any(Path(str(entry.locate())).resolve() == file.resolve() for entry in files)


def _find_overwriter(package: str) -> str | None:
    """The distribution that replaced our installed ``__init__.py``; None if it is ours."""
    try:
        files = metadata.files(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.as_posix() == f"{package}/__init__.py" and file.hash is not None:
            content = Path(str(file.locate())).read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            if file.hash.mode == "sha256" and digest.decode() != file.hash.value:
                return next(iter(_find_owners(package)), None)
    return None


if __name__ == "__main__":
    main()
