"""What a method is, and the dictionary of all of them."""

import difflib
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any, Literal

from solvers import mechanisms as _package
from solvers.errors import OptionError, UnknownMethodError


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
class Method:
    """A mechanism by the name its paper gives it.

    Attributes
    ----------
    name : str
        The name users write, as in design.md section 2.
    summary : str
        One line for ``sweep list``.
    solve : callable
        ``solve(problem, *, option=default, ...) -> Solution``; every option is a typed
        keyword with a default.
    source : str
        Paper, section, algorithm or equation.
    presets : Mapping[str, Mapping[str, Any]]
        Named sets of options, for instance ``published``.
    same_when_uniform : str, optional
        The method that this one is when all targets are equal.
    self_certifying : bool
        Whether a converged solution has a certified gap of at most its ``tol``.
    asks : {"matrix", "graph"}
        The kind of workload it takes.
    work : callable
        ``work(m, d) -> Work``, for ``sweep plan``.
    """

    name: str
    summary: str
    solve: Callable[..., Any]
    source: str = ""
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    same_when_uniform: str | None = None
    self_certifying: bool = False
    asks: Literal["matrix", "graph"] = "matrix"
    work: Callable[[int, int], Work] = negligible_work

    @property
    def options(self) -> Mapping[str, inspect.Parameter]:
        """The options that ``solve`` takes, by name."""
        parameters = inspect.signature(self.solve).parameters.values()
        return {p.name: p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}

    def resolve(self, preset: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
        """All options of one solve: defaults, then the preset, then ``options``.

        Raises
        ------
        OptionError
            If the preset or an option does not exist.
        """
        if preset is not None and preset not in self.presets:
            raise OptionError(
                f"method {self.name!r} has no preset {preset!r}{_hint(preset, self.presets)}"
            )
        for name in options:
            if name not in self.options:
                raise OptionError(
                    f"method {self.name!r} has no option {name!r}{_hint(name, self.options)}"
                )
        chosen = {name: parameter.default for name, parameter in self.options.items()}
        return {**chosen, **(self.presets[preset] if preset else {}), **options}


@cache
def all_methods() -> Mapping[str, Method]:
    """Every method by name: ``METHODS`` of each module of `solvers.mechanisms`."""
    found: list[Method] = []
    for module in pkgutil.iter_modules(_package.__path__):
        found += importlib.import_module(f"{_package.__name__}.{module.name}").METHODS
    return MappingProxyType({m.name: m for m in sorted(found, key=lambda m: m.name.casefold())})


def find(name: str) -> Method:
    """The method of that name.

    Raises
    ------
    UnknownMethodError
        If there is none; the message gives the nearest name.
    """
    known = all_methods()
    if name not in known:
        raise UnknownMethodError(f"no method is called {name!r}{_hint(name, known)}")
    return known[name]


def _hint(name: str, known: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    listed = ", ".join(known) or "none"
    return f"; did you mean {near[0]!r}?" if near else f"; there is: {listed}"
