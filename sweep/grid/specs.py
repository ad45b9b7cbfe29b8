"""Workloads, targets and mechanisms by name, with all their parameters."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sweep.experiment.files import identity
from workloads.family import Kind


@dataclass(frozen=True)
class Spec:
    """A workload family or a targets rule by name, with all its parameters, JSON-like."""

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)

    def content(self) -> dict[str, Any]:
        """The JSON-like content that the identity is a hash of."""
        return {"name": self.name, "params": identity(self.params)}


@dataclass(frozen=True)
class WorkloadSpec(Spec):
    """A workload family; its kind follows from the name, so it is not part of the identity."""

    kind: Kind = "matrix"


@dataclass(frozen=True)
class MechanismSpec:
    """A mechanism by name, with all its options, preset and defaults included, JSON-like."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def content(self) -> dict[str, Any]:
        """The JSON-like content that the identity is a hash of."""
        return {"name": self.name, "options": identity(self.options)}
