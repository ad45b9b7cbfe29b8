"""What a mechanism is."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from solvers import option_bounds
from solvers.errors import OptionError
from workloads.family import Kind
from workloads.parameters import nearest

Form = TypeVar("Form")


@dataclass(frozen=True)
class Work:
    """What one solve is expected to take.

    Attributes
    ----------
    flops : float
        Floating-point operations, all counted as if in matrix products.
    bytes : float
        Peak memory, in bytes.
    """

    flops: float
    bytes: float


def negligible_work(m: int, d: int) -> Work:
    """The work of a closed form: a few passes over W."""
    return Work(flops=10.0 * m * d, bytes=24.0 * m * d)


@dataclass(frozen=True)
class Mechanism:
    """A mechanism by the name its paper gives it.

    Attributes
    ----------
    name : str
        The name users write.
    summary : str
        One line for ``sweep list``.
    solve : callable, optional
        On query matrices: ``solve(problem, *, option=default, ...) -> Solution``; every
        option is a typed keyword with a default. None if it takes query graphs only.
    source : str
        Paper, section, algorithm or equation.
    presets : Mapping[str, Mapping[str, Any]]
        Named sets of options, for instance ``published``.
    same_when_uniform : str, optional
        The mechanism that this one is when all targets are equal.
    self_certifying : bool
        Whether a converged solution has a certified gap of at most its ``tol``.
    other_objectives : tuple of str
        Options that, away from their defaults, make it minimise something else than Δ²: it
        certifies nothing about Δ² then.
    work : callable
        ``work(m, d, *, option=default, ...) -> Work``, with those options that matter, for
        ``sweep plan``; on a query graph m and d are both the
        number of answers.
    solve_graph : callable, optional
        On query graphs: ``solve_graph(problem, *, option=default, ...) -> Solution``.
        None if it takes query matrices only.
    forms : tuple
        What it is where a reduction takes it, one object for each reduction that needs to know:
        `solvers.forms.orbits.on_orbits.OnOrbits`, `solvers.forms.kronecker.Multiplicative`.
    least_total_error : bool
        Whether it is the mechanism of least total error, which total errors are compared with.
    runs_code : bool
        Whether it calls a function that its options name.
    foreign : bool
        Whether it is a user's or a plug-in, whose answers are verified (`solvers.forms.dense`).
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
    forms: tuple[object, ...] = ()
    least_total_error: bool = False
    runs_code: bool = False
    foreign: bool = False

    @property
    def asks(self) -> tuple[Kind, ...]:
        """The kinds of workload it takes: ``"matrix"``, ``"graph"`` or both, in this order."""
        return tuple(kind for kind, solve in self._solvers().items() if solve is not None)

    @cached_property
    def options(self) -> Mapping[str, inspect.Parameter]:
        """The options that it takes on any kind of workload, by name."""
        return {n: p for kind in reversed(self.asks) for n, p in self.options_on(kind).items()}

    def options_on(self, kind: Kind) -> Mapping[str, inspect.Parameter]:
        """The options that it takes on one kind of workload, which is among ``asks``, by name."""
        return self._keywords[kind]

    def certifies(self, options: Mapping[str, Any]) -> bool:
        """Whether a solve with these options certifies its gap: a ``tol`` of 0 asks for none."""
        asked = self.self_certifying and options.get("tol") != 0
        return asked and self.first_changed(options, self.other_objectives) is None

    def form(self, kind: type[Form]) -> Form | None:
        """Its form of that type; None without one."""
        return next((form for form in self.forms if isinstance(form, kind)), None)

    def first_changed(self, options: Mapping[str, Any], names: Iterable[str]) -> str | None:
        """The first of some options on query matrices that is not at its default; None without one.

        Parameters
        ----------
        options : Mapping[str, object]
            Of the solve; those that are left out have their defaults.
        names : iterable of str
            Those that are looked at; the value of one may be an array.
        """
        defaults = {name: self.options_on("matrix")[name].default for name in names}
        pairs = ((name, options.get(name, default)) for name, default in defaults.items())
        return next((n for n, value in pairs if not np.array_equal(value, defaults[n])), None)

    @property
    def uses_structure(self) -> bool:
        """Whether what it is expected to take depends on the structure of the queries."""
        return "form_work" in self._matter_for_work

    @property
    def takes_start(self) -> bool:
        """Whether a solve can begin at the weights of a neighbour."""
        return "start" in self.options

    @property
    def takes_time_limit(self) -> bool:
        """Whether a solve ends by itself, with its best answer, when its time is over."""
        return "time_limit" in self.options

    def expected_work(
        self, m: int, d: int, options: Mapping[str, Any], form_work: int | None = None
    ) -> Work:
        """What a solve is expected to take.

        Parameters
        ----------
        m, d : int
            Queries and cells.
        options : Mapping[str, object]
            Of the solve.
        form_work : int, optional
            `QueryOperator.form_work` where `factors.structured` takes the structure.
        """
        known = options if form_work is None else {**options, "form_work": form_work}
        return self.work(m, d, **{n: v for n, v in known.items() if n in self._matter_for_work})

    def resolve(
        self, preset: str | None, options: Mapping[str, Any], kind: Kind | None = None
    ) -> dict[str, Any]:
        """All options of one solve: defaults, then the preset, then ``options``.

        Parameters
        ----------
        preset : str or None
            A name of ``presets``.
        options : Mapping[str, object]
            What the user wrote.
        kind : {"matrix", "graph"}, optional
            The kind of workload, among ``asks``; the first of them if not given.

        Raises
        ------
        OptionError
            If the preset or an option does not exist, or its value is out of range.
        """
        known = self.options_on(kind or self.asks[0])
        if preset is not None and preset not in self.presets:
            raise OptionError(
                f"mechanism {self.name!r} has no preset {preset!r}; {nearest(preset, self.presets)}"
            )
        for name in options:
            if name not in known:
                raise OptionError(
                    f"mechanism {self.name!r} has no option {name!r}; {nearest(name, known)}"
                )
        defaults = {name: parameter.default for name, parameter in known.items()}
        chosen = defaults | {**(self.presets[preset] if preset else {}), **options}
        option_bounds.check(self.name, chosen, defaults)
        return chosen

    @cached_property
    def _keywords(self) -> dict[Kind, Mapping[str, inspect.Parameter]]:
        """The options on each kind of workload that it takes, by name."""
        return {kind: _keyword_only(solve) for kind, solve in self._solvers().items() if solve}

    @cached_property
    def _matter_for_work(self) -> frozenset[str]:
        return frozenset(inspect.signature(self.work).parameters)

    def _solvers(self) -> dict[Kind, Callable[..., Any] | None]:
        return {"matrix": self.solve, "graph": self.solve_graph}


def _keyword_only(solve: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    parameters = inspect.signature(solve).parameters.values()
    return {p.name: p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}
