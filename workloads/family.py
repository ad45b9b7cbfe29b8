"""What a workload family is, and the dictionary of all of them."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from workloads import families as _package
from workloads.workload import Workload


@dataclass(frozen=True)
class Family:
    """A named way to make workloads.

    Attributes
    ----------
    name : str
        The name users write.
    summary : str
        One line for ``sweep list``.
    build : callable
        Makes the workload from keyword parameters, all typed; a random family takes
        ``seed: int`` among them.
    source : str
        Where the workload comes from: paper and section.
    """

    name: str
    summary: str
    build: Callable[..., Workload]
    source: str = ""

    @property
    def params(self) -> Mapping[str, inspect.Parameter]:
        """The parameters of ``build``, by name."""
        return inspect.signature(self.build).parameters

    @property
    def random(self) -> bool:
        """Whether the workload depends on a seed."""
        return "seed" in self.params


@cache
def all_families() -> Mapping[str, Family]:
    """Every family by name: one for each module of `workloads.families`."""
    found: list[Family] = [
        importlib.import_module(f"{_package.__name__}.{module.name}").FAMILY
        for module in pkgutil.iter_modules(_package.__path__)
    ]
    return MappingProxyType({family.name: family for family in sorted(found, key=lambda f: f.name)})
