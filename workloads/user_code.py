"""Access to users' code: functions named ``module:function``, plug-ins, and source texts."""

import ast
import importlib
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from threading import Lock
from typing import Any, Generic, Literal, TypeVar

from workloads.errors import WorkloadError

_PARSER = Lock()


class CallFailedError(WorkloadError):
    """Raised if a user's function raises an error."""


def syntax_tree(text: str, mode: Literal["exec", "eval"] = "exec") -> Any:
    """Parse a source text into a syntax tree; threads call `ast.parse` one at a time."""
    # Python 3.11 counts the parser's recursion depth for the whole process: two threads that parse
    # at once can raise "SystemError: AST constructor recursion depth mismatch".
    with _PARSER:
        return ast.parse(text, mode=mode)


def load(owner: str, function: str) -> Callable[..., object]:
    """Import the function with the name ``module:function``.

    Parameters
    ----------
    owner : str
        The workload or mechanism that names the function, for messages: ``workload 'entry-point'``.
    function : str
        The function's name, ``module:function``.

    Raises
    ------
    WorkloadError
        If the module cannot be imported, or has no function of that name.
    """
    module, _, name = function.partition(":")
    try:
        loaded: Callable[..., object] = getattr(importlib.import_module(module), name)
    except (Exception, SystemExit) as error:
        raise WorkloadError(
            f"{owner}: {function!r} cannot be loaded ({error_text(error)}); expected "
            "'module:function', and the module must be installed wherever the sweep runs, or be in "
            "the folder in which the command runs",
            "function",
        ) from error
    if not callable(loaded):
        said = f"{owner}: {function!r} is not a function; name a function in that module"
        raise WorkloadError(said, "function")
    return loaded


def call(owner: str, function: str, *problem: object, arguments: Mapping[str, object]) -> Any:
    """Call the named function with the problem, if any, and with the keyword ``arguments``.

    Raises
    ------
    WorkloadError
        If the function cannot be loaded, or its signature does not accept the arguments.
    CallFailedError
        If the function raises an error.
    """
    loaded = load(owner, function)
    try:
        inspect.signature(loaded).bind(*problem, **arguments)
    except (TypeError, ValueError) as error:
        raise WorkloadError(
            f"{owner}: {function!r} does not take {dict(arguments)} ({error})", "arguments"
        ) from None
    try:
        return loaded(*problem, **arguments)
    except (Exception, SystemExit) as error:
        raise CallFailedError(
            f"{owner}: {function!r} called with {dict(arguments)} raised {error_text(error)}",
            "function",
        ) from error


def error_text(error: BaseException) -> str:
    """Return the type and the message of an error that a user's code raised."""
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException:
        return f"{type(error).__name__}, whose message cannot be read"


Added = TypeVar("Added")


@dataclass(frozen=True)
class Plugins(Generic[Added]):
    """The plug-ins of one entry-point group, and the reasons why any were left out.

    Attributes
    ----------
    entries : Mapping[str, Added]
        The plug-ins by name.
    troubles : tuple of str
        For each plug-in that was left out, a clause that says why.
    """

    entries: Mapping[str, Added]
    troubles: tuple[str, ...]

    @property
    def hint(self) -> str:
        """The end of a message about an unknown name: which plug-ins were left out, and why."""
        return "".join(f"; {trouble}" for trouble in self.troubles)


def load_plugins(
    group: str,
    build: Callable[[str, object], Added],
    name_of: Callable[[Added], str],
    ours: Collection[str],
) -> Plugins[Added]:
    """Load the plug-ins of one entry-point group, leaving out those that are broken.

    Parameters
    ----------
    group : str
        Name of the entry-point group, such as ``fitness_sweep.mechanisms``.
    build : callable
        ``build(name, loaded)`` returns the plug-in made from the loaded object, or raises an error.
    name_of : callable
        Returns the name of a plug-in.
    ours : collection of str
        Names that are already taken; a plug-in with such a name is left out.
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
