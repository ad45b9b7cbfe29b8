"""Every mechanism by name: ours, those of other packages, and the user's own."""

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from types import MappingProxyType
from typing import Any

from solvers import mechanisms as _package
from solvers.errors import OptionError, UnknownMechanismError
from solvers.mechanism import Mechanism
from workloads import plugins
from workloads.parameters import nearest

GROUP = "fitness_sweep.mechanisms"
"""The entry points by which other packages add mechanisms."""

_added: dict[str, Mechanism] = {}


def all_mechanisms() -> Mapping[str, Mechanism]:
    """Every mechanism by name.

    ``MECHANISMS`` of each module of `solvers.mechanisms`, the plug-ins of other packages, and
    those that are `added` for the time being.
    """
    installed = _installed()
    if not _added:
        return installed
    return MappingProxyType(_sorted([*installed.values(), *_added.values()]))


@contextmanager
def added(functions: Mapping[str, Callable[..., Any]]) -> Iterator[None]:
    """Functions of the user's as mechanisms, until the end of the block.

    Raises
    ------
    OptionError
        If a name is taken, or a function is no mechanism.
    """
    before = dict(_added)
    add(functions)
    try:
        yield
    finally:
        _added.clear()
        _added.update(before)


def add(functions: Mapping[str, Callable[..., Any]]) -> None:
    """Functions of the user's as mechanisms, as long as this process lives.

    Raises
    ------
    OptionError
        If a name is taken, or a function is no mechanism.
    """
    from solvers import foreign

    new: dict[str, Mechanism] = {}
    for name, function in functions.items():
        if name in _installed():
            raise OptionError(f"mechanism {name!r} exists already; call yours otherwise")
        try:
            new[name] = foreign.mechanism(name, function)
        except (TypeError, ValueError) as error:
            raise OptionError(str(error)) from error
    _added.update(new)


@cache
def plugged() -> plugins.Plugins[Mechanism]:
    """The mechanisms of other packages, and what is wrong with those that are left out."""
    from solvers import foreign

    def made(name: str, loaded: object) -> Mechanism:
        if isinstance(loaded, Mechanism):
            return foreign.guarded(loaded)
        if not callable(loaded):
            raise TypeError("expected a solvers.Mechanism or a function")
        return foreign.mechanism(name, loaded)

    return plugins.found(GROUP, made, lambda one: one.name, _ours())


@cache
def _installed() -> Mapping[str, Mechanism]:
    return MappingProxyType(_sorted([*_ours().values(), *plugged().entries.values()]))


@cache
def _ours() -> Mapping[str, Mechanism]:
    found: list[Mechanism] = []
    for module in pkgutil.iter_modules(_package.__path__):
        found += importlib.import_module(f"{_package.__name__}.{module.name}").MECHANISMS
    return _sorted(found)


def _sorted(found: list[Mechanism]) -> dict[str, Mechanism]:
    return {m.name: m for m in sorted(found, key=lambda m: m.name.casefold())}


def find(name: str) -> Mechanism:
    """The mechanism of that name.

    Raises
    ------
    UnknownMechanismError
        If there is none; the message gives the nearest name.
    """
    known = all_mechanisms()
    if name not in known:
        raise UnknownMechanismError(
            f"no mechanism is called {name!r}; {nearest(name, known)}{plugged().hint}"
        )
    return known[name]
