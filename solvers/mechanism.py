"""The `Mechanism` type, and all mechanisms by name: built-in, plug-ins and your own."""

import importlib
import inspect
import pkgutil
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import chain
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from solvers.errors import NotApplicableError, OptionError, UnknownMechanismError
from workloads import user_code
from workloads.family import Kind
from workloads.parameters import bind, nearest

Variant = TypeVar("Variant")


@dataclass(frozen=True)
class Work:
    """Expected work of one solve.

    Attributes
    ----------
    flops : float
        Equivalent number of floating-point operations at the speed of matrix products.
    bytes : float
        Peak memory, in bytes.
    """

    flops: float
    bytes: float


def negligible_work(m: int, d: int) -> Work:
    """Return the work of a closed form on a matrix W of shape (m, d): a few passes over W."""
    return Work(flops=10.0 * m * d, bytes=24.0 * m * d)


def structured_work(m: int, d: int) -> Work:
    """Return the work of a closed form that applies W a few times and stores only vectors."""
    return Work(flops=10.0 * m * d, bytes=48.0 * (m + d))


@dataclass(frozen=True)
class Mechanism:
    """A mechanism, under the name that its paper gives it.

    Attributes
    ----------
    name : str
        The name users write.
    summary : str
        One line for ``sweep list``.
    solve : callable, optional
        Solves problems with query matrices: ``solve(problem, *, option=default, ...) -> Solution``.
        Every option is a typed keyword with a default. None if the mechanism takes query graphs
        only.
    source : str
        Paper, section, algorithm or equation.
    presets : Mapping[str, Mapping[str, Any]]
        Named sets of options, for instance ``published``.
    same_when_uniform : str, optional
        Name of the mechanism that gives the same solution if all targets are equal.
    self_certifying : bool
        Whether a converged solution has a certified gap of at most its ``tol``.
    other_objectives : tuple of str
        Options that make the mechanism minimise another objective than Δ² if they differ from their
        defaults. It then certifies nothing about Δ².
    work : callable
        ``work(m, d, *, option=default, ...) -> Work``, with the options that affect the work, for
        ``sweep plan``; on a query graph both m and d are the number of answers.
    solve_graph : callable, optional
        Solves problems with query graphs: ``solve_graph(problem, *, option=default, ...) ->
        Solution``. None if the mechanism takes query matrices only.
    variants : tuple
        Objects such as `solvers.forms.orbits.on_orbits.OnOrbits`, at most one for each reduction.
        Each defines how its reduction solves problems by this mechanism.
    least_total_error : bool
        Whether this is the mechanism of least total error, with which total errors are compared.
    runs_code : bool
        Whether the mechanism calls a function that the user names in its options.
    foreign : bool
        Whether the mechanism is a user's function or a plug-in, whose answers are verified
        (`solvers.forms.dense`).
    revision : int
        A number that is increased when the mechanism's answers change; stored results of another
        revision are stale.
    """

    name: str
    summary: str
    solve: Callable[..., Any] | None = None
    source: str = ""
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    same_when_uniform: str | None = None
    self_certifying: bool = False
    other_objectives: tuple[str, ...] = ()
    work: Callable[..., Work] = negligible_work
    solve_graph: Callable[..., Any] | None = None
    variants: tuple[object, ...] = ()
    least_total_error: bool = False
    runs_code: bool = False
    foreign: bool = False
    revision: int = 1

    @classmethod
    def of(cls, name: str, solve: Callable[..., Any] | None = None, **about: Any) -> "Mechanism":
        """Create a mechanism; its summary is the first line of its solve function's docstring."""
        lines = (inspect.getdoc(solve or about["solve_graph"]) or name).splitlines()
        return cls(name, lines[0].removesuffix("."), solve, **about)

    @cached_property
    def workload_kinds(self) -> tuple[Kind, ...]:
        """The kinds of workload accepted: ``"matrix"``, ``"graph"`` or both, in this order."""
        return tuple(self.options_on)

    @cached_property
    def options_on(self) -> dict[Kind, dict[str, inspect.Parameter]]:
        """The options by name, for each kind of workload that the mechanism takes."""
        given: dict[Kind, Callable[..., Any] | None]
        given = {"matrix": self.solve, "graph": self.solve_graph}
        return {
            kind: {
                p.name: p
                for p in inspect.signature(f).parameters.values()
                if p.kind is p.KEYWORD_ONLY
            }
            for kind, f in given.items()
            if f
        }

    @cached_property
    def options(self) -> Mapping[str, inspect.Parameter]:
        """The options, by name, that the mechanism takes on at least one kind of workload."""
        return dict(ChainMap(*self.options_on.values()))

    def certifies(self, options: Mapping[str, Any]) -> bool:
        """Whether a solve with these options certifies its gap; never with a ``tol`` of 0."""
        certified = self.self_certifying and options.get("tol") != 0
        return certified and self.first_changed(options, self.other_objectives) is None

    def variant(self, kind: type[Variant]) -> Variant | None:
        """The mechanism's variant of type ``kind``, or None."""
        return next((one for one in self.variants if isinstance(one, kind)), None)

    def first_changed(self, options: Mapping[str, Any], names: Iterable[str]) -> str | None:
        """Return the first name whose option differs from its default, or None.

        Parameters
        ----------
        options : Mapping[str, object]
            Options of a solve with a query matrix; options that are missing have their defaults.
        names : iterable of str
            Names of the options to compare; the value of an option may be an array.
        """
        defaults = {name: self.options_on["matrix"][name].default for name in names}
        pairs = ((name, options.get(name, default)) for name, default in defaults.items())
        return next((n for n, value in pairs if not np.array_equal(value, defaults[n])), None)

    def expected_work(
        self, m: int, d: int, options: Mapping[str, Any], form_work: int | None = None
    ) -> Work:
        """Return the expected work of a solve.

        Parameters
        ----------
        m, d : int
            Numbers of queries and of domain cells.
        options : Mapping[str, object]
            Options of the solve.
        form_work : int, optional
            `QueryOperator.form_work` if the solve uses the queries' structure, otherwise None.
        """
        known = options if form_work is None else {**options, "form_work": form_work}
        return self.work(m, d, **{n: v for n, v in known.items() if n in self.work_parameters})

    def resolve(
        self, preset: str | None, options: Mapping[str, Any], kind: Kind | None = None
    ) -> dict[str, Any]:
        """Return all options of one solve: defaults, overridden by the preset, then by ``options``.

        Values are checked against the types and bounds in the options' annotations.

        Parameters
        ----------
        preset : str or None
            A name of ``presets``.
        options : Mapping[str, object]
            The options that the user wrote.
        kind : {"matrix", "graph"}, optional
            The kind of workload; default: the first of ``workload_kinds``.

        Raises
        ------
        OptionError
            If the preset or an option does not exist, or the value of an option is invalid.
        """
        known = self.options_on[kind or self.workload_kinds[0]]
        if preset is not None and preset not in self.presets:
            raise OptionError(
                f"mechanism {self.name!r} has no preset {preset!r}; {nearest(preset, self.presets)}"
            )
        given = {**(self.presets[preset] if preset else {}), **options}
        return bind(f"mechanism {self.name!r}", known, given, OptionError)

    @cached_property
    def work_parameters(self) -> frozenset[str]:
        """The names of the parameters of ``work``.

        They include ``form_work`` only if the mechanism's work depends on the queries' structure.
        """
        return frozenset(inspect.signature(self.work).parameters)


GROUP = "fitness_sweep.mechanisms"
"""The group of entry points in which other packages register mechanisms."""

_added: dict[str, Mechanism] = {}


@cache
def all_mechanisms() -> Mapping[str, Mechanism]:
    """Return every mechanism by name.

    Mechanisms are the `Mechanism` objects in the modules of `solvers.mechanisms`, the plug-ins of
    other packages, and the functions that `add` or `added` registered.
    """
    known = {**_ours(), **plugged().entries, **_added}
    return MappingProxyType({name: known[name] for name in sorted(known, key=str.casefold)})


@contextmanager
def added(functions: Mapping[str, Callable[..., Any]]) -> Iterator[None]:
    """Register your own functions as mechanisms until the end of the ``with`` block.

    Raises
    ------
    OptionError
        If a name is taken, or a function does not have the signature of a mechanism.
    """
    before = dict(_added)
    add(functions)
    try:
        yield
    finally:
        if before != _added:
            _added.clear()
            _added.update(before)
            all_mechanisms.cache_clear()


def add(functions: Mapping[str, Callable[..., Any]]) -> None:
    """Register your own functions as mechanisms for the life of this process.

    Raises
    ------
    OptionError
        If a name is taken, or a function does not have the signature of a mechanism.
    """
    new: dict[str, Mechanism] = {}
    taken = all_mechanisms().keys() - _added.keys()
    for name, function in functions.items():
        if name in taken:
            raise OptionError(f"mechanism {name!r} exists already; give yours another name")
        try:
            new[name] = of_function(name, function)
        except (TypeError, ValueError) as error:
            raise OptionError(str(error)) from None
    if new:
        _added.update(new)
        all_mechanisms.cache_clear()


def of_function(name: str, function: Callable[..., Any]) -> Mechanism:
    """Return the mechanism that calls a user's ``f(problem, *, option=default, ...)``.

    Parameters
    ----------
    function : callable
        Returns a `Solution`, or a strategy of shape (r, d): queries that are answered with equal
        noise. The answers to W are derived from their answers by least squares.

    Raises
    ------
    TypeError
        If the function does not take a problem and keyword options with defaults.
    """
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or any(
        p.kind is not p.KEYWORD_ONLY or p.default is p.empty for p in parameters[1:]
    ):
        raise TypeError(
            f"mechanism {name!r}: expected f(problem, *, option=default, ...) that returns a "
            "Solution or a strategy matrix"
        )
    return _foreign(Mechanism.of(name, function))


def _foreign(given: Mechanism) -> Mechanism:
    """Restrict a mechanism to query matrices, and mark it so that its answers are verified."""
    if given.solve is None:
        raise TypeError(
            f"mechanism {given.name!r} takes no query matrices; only answers to them can be checked"
        )
    return replace(given, solve_graph=None, variants=(), self_certifying=False, foreign=True)


@cache
def plugged() -> user_code.Plugins[Mechanism]:
    """The mechanisms of other packages, and the reasons why any were left out."""

    def made(name: str, loaded: object) -> Mechanism:
        if isinstance(loaded, Mechanism):
            return _foreign(loaded)
        if not callable(loaded):
            raise TypeError("expected a solvers.Mechanism or a function")
        return of_function(name, loaded)

    return user_code.load_plugins(GROUP, made, lambda mechanism: mechanism.name, _ours())


@cache
def _ours() -> Mapping[str, Mechanism]:
    package = importlib.import_module("solvers.mechanisms")
    names = (
        module.name for module in pkgutil.iter_modules(package.__path__, "solvers.mechanisms.")
    )
    contents = chain.from_iterable(vars(importlib.import_module(n)).values() for n in names)
    return {value.name: value for value in contents if isinstance(value, Mechanism)}


def find(name: str, kind: Kind | None = None) -> Mechanism:
    """Return the mechanism of this name.

    Parameters
    ----------
    kind : {"matrix", "graph"}, optional
        The kind of workload that the mechanism must take.

    Raises
    ------
    UnknownMechanismError
        If no mechanism has this name; the message suggests the nearest name.
    NotApplicableError
        If the mechanism does not take this kind; the message lists the mechanisms that do.
    """
    known = all_mechanisms()
    if name not in known:
        raise UnknownMechanismError(
            f"no mechanism is called {name!r}; {nearest(name, known)}{plugged().hint}; one of your "
            "own is known only where it is given in Python or installed as a plug-in"
        )
    if kind and kind not in known[name].workload_kinds:
        others = (other for other, m in known.items() if kind in m.workload_kinds)
        raise NotApplicableError(
            f"mechanism {name!r} does not apply to a query {kind}; those that do are: "
            f"{', '.join(others)}"
        )
    return known[name]
