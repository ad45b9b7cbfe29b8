"""The `Mechanism` class, and all mechanisms by name: built-in, plug-ins and your own."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import chain
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Protocol, Self, TypeVar, runtime_checkable

import numpy as np

from solvers.dual.iteration import Deadline, Stopping
from solvers.errors import NotApplicableError, OptionError, UnknownMechanismError
from solvers.problem import GraphProblem, Problem
from solvers.solution import Solution
from workloads import user_code
from workloads.family import Kind
from workloads.parameters import Count, NotNegative, Seconds, bind, nearest


@dataclass(frozen=True)
class ProblemSize:
    """The size of a problem, from which a mechanism estimates its work.

    Attributes
    ----------
    m, d : int
        Numbers of queries and of domain cells; on a query graph, both are the number of answers.
    form_work : int, optional
        `QueryOperator.form_work` if the solve uses the queries' structure, otherwise None.
    """

    m: int
    d: int
    form_work: int | None = None


SECONDS_PER_FLOP = 1e-10
"""Assumed seconds per operation of `Work`: a modest core does ten billion per second.

Fast cores do four times as many in matrix products; ``sweep plan`` measures its own machine.
"""


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


def structured_work(size: ProblemSize) -> Work:
    """Return the work of a closed form that applies W a few times and stores only vectors."""
    return Work(flops=10.0 * size.m * size.d, bytes=48.0 * (size.m + size.d))


@dataclass(frozen=True)
class Only:
    """Marks an option that a mechanism takes on workloads of one kind only."""

    kind: Kind


Option = TypeVar("Option")
MatrixOption = Annotated[Option, Only("matrix")]
"""The type of an option that a mechanism takes on query matrices only."""
GraphOption = Annotated[Option, Only("graph")]
"""The type of an option that a mechanism takes on query graphs only."""


def _list_forms(mechanism: type) -> set[str]:
    """Return the names of a mechanism's methods that solve problems."""
    return {n for n in dir(mechanism) if n.startswith("on_") and getattr(mechanism, n) is not None}


def _describe(name: str) -> str:
    return f"mechanism {name!r}"


@dataclass(frozen=True)
class Mechanism:
    """A mechanism with its options, under the name that its paper gives it.

    A mechanism is a frozen data class. Each field is an option: its type, with bounds as in
    `workloads.parameters`, says which values it takes. The first line of the docstring is the
    summary that ``sweep list`` shows. The methods whose names start with ``on_`` are the forms in
    which the mechanism solves problems; it has at least one of them:

    - ``on_matrix(problem)``, on the query matrix (`OnMatrix`);
    - ``on_graph(problem)``, on a query graph (`OnGraph`);
    - ``on_orbits(orbits)``, on orbits of equivalent cells (`solvers.forms.orbits.OnOrbits`), or
      one for marginals, ``on_marginals``, and one for other products, ``on_products``;
    - ``on_factors(product)``, factor by factor (`solvers.forms.kronecker.OnFactors`);
    - ``on_differences(differences)``, under replace-one neighbours
      (`solvers.forms.differences.OnDifferences`).

    Attributes
    ----------
    name : str
        The name users write.
    summary : str
        One line for ``sweep list``.
    source : str
        Paper, section, algorithm or equation.
    presets : Mapping[str, Mapping[str, object]]
        Named sets of options, for instance ``published``.
    workload_kinds : tuple of str
        The kinds of workload accepted: ``"matrix"``, ``"graph"`` or both, in this order.
    same_when_uniform : str, optional
        Name of the mechanism that gives the same solution if all targets are equal.
    self_certifying : bool
        Whether a converged solution has a certified gap of at most its ``tol``.
    other_objectives : tuple of str
        Options that make the mechanism minimise another objective than Δ² if they differ from their
        defaults. It then certifies nothing about Δ².
    least_total_error : bool
        Whether this is the mechanism of least total error, with which total errors are compared.
    without_matrix : str
        The reason for messages, if there is no ``on_matrix``.
    uses_structure : bool
        Whether ``on_matrix`` solves with the structure of the queries where that saves work.
    flops_per_pair : float
        Expected floating-point operations of ``on_orbits`` for each pair of a marginal and a subset
        of its attributes, fitted to measured solves; used if all cells are equivalent.
    runs_code : bool
        Whether the mechanism calls a function that the user names in its options.
    foreign : bool
        Whether the mechanism is a user's function or a plug-in, whose answers are verified
        (`solvers.forms.dense`).
    origin : type or callable
        The class or the function that the author wrote; its source identifies the code.
    revision : int
        A number that is increased when the mechanism's answers change; stored results of another
        revision are stale.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    source: ClassVar[str] = ""
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {}
    workload_kinds: ClassVar[tuple[Kind, ...]] = ()
    same_when_uniform: ClassVar[str | None] = None
    self_certifying: ClassVar[bool] = False
    other_objectives: ClassVar[tuple[str, ...]] = ()
    least_total_error: ClassVar[bool] = False
    without_matrix: ClassVar[str] = "it has no form on the query matrix"
    uses_structure: ClassVar[bool] = False
    flops_per_pair: ClassVar[float] = 3e3
    runs_code: ClassVar[bool] = False
    foreign: ClassVar[bool] = False
    origin: ClassVar[Callable[..., object]]
    revision: ClassVar[int] = 1

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.name = getattr(cls, "name", cls.__name__)
        cls.origin = vars(cls).get("origin", cls)
        if cls.__doc__:
            cls.summary = inspect.cleandoc(cls.__doc__).splitlines()[0].removesuffix(".")
        kinds: tuple[Kind, ...] = ("matrix", "graph")
        on_graph = {"on_graph"} & _list_forms(cls)
        cls.workload_kinds = kinds[not _list_forms(cls) - on_graph : 1 + len(on_graph)]

    def __post_init__(self) -> None:
        """Raise OptionError if the value of an option has a wrong type or is out of bounds."""
        bind(_describe(self.name), self.params(), self.options, OptionError)

    @classmethod
    @cache
    def params(cls, kind: Kind | None = None) -> Mapping[str, inspect.Parameter]:
        """Return the options on one kind of workload, or on all, by name, with type and default."""

        def applies(annotation: object) -> bool:
            marks = getattr(annotation, "__metadata__", ())
            return all(kind in (None, mark.kind) for mark in marks if isinstance(mark, Only))

        params = inspect.signature(cls, eval_str=True).parameters
        return {name: option for name, option in params.items() if applies(option.annotation)}

    @classmethod
    def make(
        cls, preset: str | None, options: Mapping[str, object], kind: Kind | None = None
    ) -> Self:
        """Create the mechanism with defaults, overridden by the preset, then by ``options``.

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
        owner = _describe(cls.name)
        if preset is not None and preset not in cls.presets:
            hint = nearest(preset, cls.presets)
            raise OptionError(f"{owner} has no preset {preset!r}; {hint}", "preset")
        given = {**cls.presets.get(preset or "", {}), **options}
        return cls(**bind(owner, cls.params(kind or cls.workload_kinds[0]), given, OptionError))

    @property
    def options(self) -> Mapping[str, Any]:
        """The value of every option, by name."""
        return {name: getattr(self, name) for name in self.params()}

    def replaced(self, **changes: object) -> Self:
        """Return the mechanism with some options changed."""
        return type(self)(**{**self.options, **changes})

    @property
    def deadline(self) -> Deadline:
        """When to return the best answer so far: as set by `until`, or ``time_limit`` from now."""
        known: Deadline | None = vars(self).get("_deadline")
        return known or Deadline.after(self.options.get("time_limit"))

    def until(self, deadline: Deadline) -> Self:
        """Return the mechanism with a deadline that all its solves share."""
        copy = self.replaced()
        vars(copy)["_deadline"] = deadline
        return copy

    @property
    def certifies(self) -> bool:
        """Whether a solve with these options certifies its gap; never with a ``tol`` of 0."""
        certified = self.self_certifying and self.options.get("tol") != 0
        return certified and self.first_changed(self.other_objectives) is None

    def first_changed(self, names: Iterable[str]) -> str | None:
        """Return the first of the named options whose value is not its default, or None."""
        options, params = self.options, self.params()
        changed = (n for n in names if not np.array_equal(options[n], params[n].default))
        return next(changed, None)

    def work(self, size: ProblemSize) -> Work:
        """Estimate the work of a solve; by default, of a closed form: a few passes over W."""
        return Work(flops=10.0 * size.m * size.d, bytes=24.0 * size.m * size.d)


@dataclass(frozen=True)
class Iterative(Mechanism):
    """A mechanism that approaches its answer step by step, with the options that limit its steps.

    Attributes
    ----------
    tol : float
        Relative gap at which to stop.
    max_iterations : int
        Largest number of steps.
    time_limit : float, optional
        Seconds after which the best answer so far is returned.
    """

    tol: NotNegative = 1e-6
    max_iterations: Count = 100
    time_limit: Seconds | None = None

    def stopping(self) -> Stopping:
        """Return the rule by which a solve that begins now ends."""
        return Stopping(self.tol, self.max_iterations, self.deadline)


@runtime_checkable
class OnMatrix(Protocol):
    """A mechanism that solves problems on the query matrix."""

    def on_matrix(self, problem: Problem) -> Solution:
        """Solve the problem; a user's mechanism may return a strategy matrix instead."""


@runtime_checkable
class OnGraph(Protocol):
    """A mechanism that solves problems on query graphs."""

    def on_graph(self, problem: GraphProblem) -> Solution:
        """Solve the problem."""


class _OfFunction(Mechanism):
    """A mechanism that calls a user's function, which may name its options as it likes."""

    foreign = True

    def __init__(self, **options: object) -> None:
        vars(self)["_options"] = bind(_describe(self.name), self.params(), options, OptionError)

    @property
    def options(self) -> Mapping[str, Any]:
        """The value of every option, by name."""
        options: Mapping[str, Any] = vars(self)["_options"]
        return options

    def on_matrix(self, problem: Problem) -> object:
        """Return the function's answer, which is yet to be verified."""
        return type(self).origin(problem, **self.options)


GROUP = "fitness_sweep.mechanisms"
"""The group of entry points in which other packages register mechanisms."""

_added: dict[str, type[Mechanism]] = {}


@cache
def all_mechanisms() -> Mapping[str, type[Mechanism]]:
    """Return the class of every mechanism by name.

    Mechanisms are the classes in the modules of `solvers.mechanisms`, the plug-ins of other
    packages, and the functions and classes that `add` or `added` registered.
    """
    known = {**_ours(), **plugged().entries, **_added}
    return MappingProxyType({name: known[name] for name in sorted(known, key=str.casefold)})


@contextmanager
def added(given: Mapping[str, Callable[..., object]]) -> Iterator[None]:
    """Register your own functions or classes as mechanisms until the end of the ``with`` block.

    Raises
    ------
    OptionError
        If a name is taken, or a function does not have the signature of a mechanism.
    """
    before = dict(_added)
    add(given)
    try:
        yield
    finally:
        _added.clear()
        _added.update(before)
        all_mechanisms.cache_clear()


def add(given: Mapping[str, Callable[..., object]]) -> None:
    """Register your own functions or classes as mechanisms for the life of this process.

    Raises
    ------
    OptionError
        If a name is taken, or a function does not have the signature of a mechanism.
    """
    new: dict[str, type[Mechanism]] = {}
    taken = all_mechanisms().keys() - _added.keys()
    for name, written in given.items():
        if name in taken:
            raise OptionError(f"mechanism {name!r} exists already; give yours another name")
        try:
            new[name] = adopt(name, written)
        except (TypeError, ValueError) as error:
            raise OptionError(str(error)) from None
    _added.update(new)
    all_mechanisms.cache_clear()


def adopt(name: str, written: object) -> type[Mechanism]:
    """Return the mechanism that a user's function or class defines; its answers are verified.

    Parameters
    ----------
    written : callable or type
        A function ``f(problem, *, option=default, ...)``, or a `Mechanism` with ``on_matrix``. It
        returns a `Solution`, or a strategy of shape (r, d): queries that are answered with equal
        noise. The answers to W are derived from their answers by least squares.

    Raises
    ------
    TypeError
        If it is neither, or the function does not take a problem and keyword options with defaults.
    """
    own: dict[str, object] = {
        "__doc__": inspect.getdoc(written) or name,
        "name": name,
        "origin": written,
        "foreign": True,
        "self_certifying": False,
    }
    if isinstance(written, type) and issubclass(written, Mechanism):
        if not issubclass(written, OnMatrix):
            raise TypeError(
                f"{_describe(name)} has no on_matrix; give it one, whose solutions can be checked"
            )
        # without the other forms, since only answers on the query matrix can be verified
        return type(name, (written,), own | dict.fromkeys(_list_forms(written) - {"on_matrix"}))
    if not callable(written):
        raise TypeError("expected a solvers.Mechanism or a function")
    try:
        signature = inspect.signature(written, eval_str=True)
    except NameError:  # an annotation that only type checkers can read
        signature = inspect.signature(written)
    parameters = [*signature.parameters.values()]
    if not parameters or any(
        p.kind is not p.KEYWORD_ONLY or p.default is p.empty for p in parameters[1:]
    ):
        raise TypeError(
            f"{_describe(name)}: expected f(problem, *, option=default, ...) that returns a "
            "Solution or a strategy matrix"
        )
    own["__signature__"] = signature.replace(parameters=parameters[1:])
    return type(name, (_OfFunction,), own)


@cache
def plugged() -> user_code.Plugins[type[Mechanism]]:
    """Return the mechanisms of other packages, and the reasons why any were left out."""
    return user_code.load_plugins(GROUP, adopt, lambda mechanism: mechanism.name, _ours())


@cache
def _ours() -> Mapping[str, type[Mechanism]]:
    package = importlib.import_module("solvers.mechanisms")
    modules = pkgutil.iter_modules(package.__path__, "solvers.mechanisms.")
    contents = chain.from_iterable(vars(importlib.import_module(m.name)).items() for m in modules)
    return {
        value.name: value
        for written, value in contents
        if isinstance(value, type) and issubclass(value, Mechanism)
        if value.workload_kinds and not written.startswith("_")
    }


def find(name: str, kind: Kind | None = None) -> type[Mechanism]:
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
            f"no mechanism is called {name!r}; {nearest(name, known)}{plugged().hint}; give one of "
            "your own in Python, or install it as a plug-in"
        )
    if kind:
        check_kind(known[name], kind)
    return known[name]


def check_kind(mechanism: type[Mechanism], kind: Kind) -> None:
    """Raise NotApplicableError if the mechanism does not take workloads of a kind."""
    if kind not in mechanism.workload_kinds:
        others = (other for other, m in all_mechanisms().items() if kind in m.workload_kinds)
        raise NotApplicableError(
            f"{_describe(mechanism.name)} does not apply to a query {kind}; those that do are: "
            f"{', '.join(others)}"
        )
