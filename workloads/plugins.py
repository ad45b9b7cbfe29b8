"""Plug-ins: what other packages add through entry points."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from workloads.functions import error_text

Added = TypeVar("Added")


@dataclass(frozen=True)
class Plugins(Generic[Added]):
    """The plug-ins of one kind, and the errors of those that are left out.

    Attributes
    ----------
    entries : Mapping[str, Added]
        By name.
    troubles : tuple of str
        A sentence on each that is left out.
    """

    entries: Mapping[str, Added]
    troubles: tuple[str, ...]

    @property
    def hint(self) -> str:
        """The end of a sentence about an unknown name."""
        return "".join(f"; {trouble}" for trouble in self.troubles)


def load_plugins(
    group: str,
    build: Callable[[str, object], Added],
    name_of: Callable[[Added], str],
    ours: Collection[str],
) -> Plugins[Added]:
    """The plug-ins of one group; a broken one does not affect the others.

    Parameters
    ----------
    group : str
        Of entry points: ``fitness_sweep.mechanisms``.
    build : callable
        ``build(name, loaded)``: what an entry point adds; a ValueError or TypeError if nothing.
    ours : collection of str
        Names that are taken.
    """
    entries: dict[str, Added] = {}
    troubles: list[str] = []
    for point in sorted(entry_points(group=group), key=lambda point: (_package(point), point.name)):
        described = f"plug-in {point.name!r} of package {_package(point)!r}"
        try:
            added = build(point.name, point.load())
        except (Exception, SystemExit) as error:
            troubles.append(
                f"{described} is left out, because it cannot be loaded ({error_text(error)})"
            )
            continue
        name = name_of(added)
        if name in ours or name in entries:
            troubles.append(f"{described} is left out, because {name!r} exists already")
        else:
            entries[name] = added
    return Plugins(entries, tuple(troubles))


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "unknown"
