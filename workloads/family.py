"""Workload families, a dictionary of all families, and `make`, which makes a workload by name."""

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Literal

from workloads import families as _package
from workloads import user_code
from workloads.errors import WorkloadError
from workloads.graphs import QueryGraph
from workloads.parameters import Recipe, bind, nearest
from workloads.workload import Workload

AnyWorkload = Workload | QueryGraph
Kind = Literal["matrix", "graph"]
"""The kind of a workload: a query matrix or a query graph."""


@dataclass(frozen=True)
class Family(Recipe[AnyWorkload]):
    """A workload family: its name, and the function that makes the family's workloads.

    ``@Family.of("window")`` makes a family of the function below it.

    Attributes
    ----------
    build : callable
        Makes a workload from keyword parameters, each annotated with its type. If the workload is
        random, one of the parameters is ``seed``.
    kind : {"matrix", "graph"}
        ``"matrix"`` if ``build`` returns a `Workload`, ``"graph"`` if it returns a `QueryGraph`.
    runs_code : bool
        Whether ``build`` runs a user's function that one of its parameters names.
    revision : int
        Increases whenever the family's workloads change; results of another revision are stale.
    """

    kind: Kind = "matrix"
    runs_code: bool = False
    revision: int = 1


GROUP = "fitness_sweep.workloads"
"""The entry-point group in which other packages register families."""


@cache
def all_families() -> Mapping[str, Family]:
    """Return all families by name: those defined in `workloads.families`, and plug-ins."""
    found = [*_ours().values(), *plugged().entries.values()]
    return MappingProxyType({family.name: family for family in sorted(found, key=lambda f: f.name)})


@cache
def plugged() -> user_code.Plugins[Family]:
    """Return the families that other packages register, and the reasons why any were left out."""

    def made(name: str, loaded: object) -> Family:
        if not isinstance(loaded, Family):
            raise TypeError("expected a workloads.Family")
        return loaded

    return user_code.load_plugins(GROUP, made, lambda family: family.name, _ours())


@cache
def _ours() -> Mapping[str, Family]:
    modules = pkgutil.iter_modules(_package.__path__)
    loaded = (importlib.import_module(f"{_package.__name__}.{m.name}") for m in modules)
    found = (value for module in loaded for value in vars(module).values())
    return {family.name: family for family in found if isinstance(family, Family)}


def make(name: str, **params: object) -> AnyWorkload:
    """Make a workload from the name of its family and its parameters.

    Parameters
    ----------
    name : str
        A key of `all_families`.
    **params
        The family's parameters; see ``workloads.families()[name].params``.

    Returns
    -------
    Workload or QueryGraph
        A `Workload` or a `QueryGraph`, as the family's ``kind`` says. Its ``params`` contain the
        value of every parameter, including defaults.

    Raises
    ------
    WorkloadError
        If the name or a parameter's name, type or value is wrong, or the workload does not fit
        into memory. For a wrong name, the message suggests the nearest valid one.
    """
    families = all_families()
    if name not in families:
        hint = nearest(name, families) + plugged().hint
        raise WorkloadError(f"no workload is called {name!r}; {hint}")
    bound = bind(f"workload {name!r}", families[name].params, params)
    try:
        workload: AnyWorkload = families[name].build(**bound)
    except (MemoryError, OverflowError) as error:
        raise WorkloadError(
            f"workload {name!r} with {bound} does not fit into memory ({error}); give a smaller one"
        ) from None
    return replace(workload, name=name, params=bound)
