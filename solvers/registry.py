"""Every mechanism by name: ours, those of other packages, and the user's own."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import Any

from solvers import mechanisms as _package
from solvers.errors import NotApplicableError, OptionError, UnknownMechanismError
from solvers.mechanism import Mechanism
from workloads import plugins
from workloads.family import Kind
from workloads.parameters import nearest

GROUP = "fitness_sweep.mechanisms"
"""The entry points by which other packages add mechanisms."""

_TAKES = "expected f(problem, *, option=default, ...) that returns a Solution or a strategy matrix"

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
    new: dict[str, Mechanism] = {}
    for name, function in functions.items():
        if name in _installed():
            raise OptionError(f"mechanism {name!r} exists already; call yours otherwise")
        try:
            new[name] = of_function(name, function)
        except (TypeError, ValueError) as error:
            raise OptionError(str(error)) from error
    _added.update(new)


def of_function(name: str, function: Callable[..., Any]) -> Mechanism:
    """A mechanism of a function ``f(problem, *, option=default, ...)``.

    Parameters
    ----------
    function : callable
        Returns a `Solution`, or a strategy: queries that are answered with equal noise, shape
        (r, d), from which W is derived by least squares.

    Raises
    ------
    TypeError
        If it does not take a problem and options.
    """
    parameters = list(inspect.signature(function).parameters.values())
    options = [p for p in parameters[1:] if p.kind is inspect.Parameter.KEYWORD_ONLY]
    if not parameters or len(options) != len(parameters) - 1:
        raise TypeError(f"mechanism {name!r}: {_TAKES}")
    for option in options:
        if option.default is inspect.Parameter.empty:
            raise TypeError(f"mechanism {name!r}: option {option.name!r} has no default; {_TAKES}")
    lines = (inspect.getdoc(function) or "a mechanism of the user's").splitlines()
    return _foreign(Mechanism(name, lines[0], function))


def _foreign(given: Mechanism) -> Mechanism:
    """The same mechanism, every answer verified; on query matrices alone."""
    if given.solve is None:
        raise TypeError(
            f"mechanism {given.name!r} takes no query matrices, and can be verified there"
        )
    return replace(given, solve_graph=None, forms=(), self_certifying=False, foreign=True)


@cache
def plugged() -> plugins.Plugins[Mechanism]:
    """The mechanisms of other packages, and what is wrong with those that are left out."""

    def made(name: str, loaded: object) -> Mechanism:
        if isinstance(loaded, Mechanism):
            return _foreign(loaded)
        if not callable(loaded):
            raise TypeError("expected a solvers.Mechanism or a function")
        return of_function(name, loaded)

    return plugins.load_plugins(GROUP, made, lambda mechanism: mechanism.name, _ours())


@cache
def _installed() -> Mapping[str, Mechanism]:
    return MappingProxyType(_sorted([*_ours().values(), *plugged().entries.values()]))


@cache
def _ours() -> Mapping[str, Mechanism]:
    mechanisms: list[Mechanism] = []
    for module in pkgutil.iter_modules(_package.__path__):
        mechanisms += importlib.import_module(f"{_package.__name__}.{module.name}").MECHANISMS
    return _sorted(mechanisms)


def _sorted(mechanisms: list[Mechanism]) -> dict[str, Mechanism]:
    return {m.name: m for m in sorted(mechanisms, key=lambda m: m.name.casefold())}


def find(name: str, kind: Kind | None = None) -> Mechanism:
    """The mechanism of that name.

    Parameters
    ----------
    kind : {"matrix", "graph"}, optional
        The kind of workload that it must take.

    Raises
    ------
    UnknownMechanismError
        If there is none; the message gives the nearest name.
    NotApplicableError
        If it does not take that kind; the message lists those that do.
    """
    known = all_mechanisms()
    if name not in known:
        raise UnknownMechanismError(
            f"no mechanism is called {name!r}; {nearest(name, known)}{plugged().hint}"
        )
    if kind and kind not in known[name].asks:
        others = (mechanism.name for mechanism in known.values() if kind in mechanism.asks)
        raise NotApplicableError(
            f"mechanism {name!r} does not apply to a query {kind}; those that do are: "
            f"{', '.join(others)}"
        )
    return known[name]
