"""The base class of reductions: forms in which problems are solved.

A reduction replaces one kind of problem by an equivalent problem that is solved instead: for
example, a Kronecker product by its factors, or marginals by their orbits.
`solvers.forms.solving` has all reductions, in the order in which they are tried.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Self

from solvers.dual.iteration import Stopping
from solvers.errors import NotApplicableError
from solvers.mechanism import Mechanism, Work
from solvers.problem import Problem
from solvers.solution import Solution


class ObstacleError(NotApplicableError):
    """A reduction cannot carry out a solve.

    The message is worded to follow the colon in the error message of
    `solvers.forms.solving.choose_reduction`.
    """


class Reduction(ABC):
    """A problem in the form in which it is solved.

    Attributes
    ----------
    problem : Problem
        The original problem.
    """

    problem: Problem

    @classmethod
    @abstractmethod
    def of(cls, problem: Problem) -> Self | None:
        """Transform a problem; None if the reduction is for problems of another kind.

        Raises
        ------
        ObstacleError
            If the problem is of this kind but cannot be transformed.
        """

    @abstractmethod
    def check(self, mechanism: Mechanism) -> None:
        """Raise ObstacleError if a mechanism, with its options, cannot solve the problem this way.

        An obstacle is, for instance, a lack of memory.
        """

    @abstractmethod
    def solve(self, mechanism: Mechanism) -> Solution:
        """Return a solution of the original problem; the mechanism must pass `check`."""

    @abstractmethod
    def lower_bound(self, stopping: Stopping) -> float:
        """Return a certified lower bound on Δ² for the original problem."""

    @abstractmethod
    def work(self, mechanism: Mechanism) -> Work:
        """Estimate the work of a solve."""


def need_defaults(mechanism: Mechanism, names: Iterable[str]) -> None:
    """Raise ObstacleError if one of the named options is not at its default."""
    changed = mechanism.first_changed(names)
    if changed:
        raise ObstacleError(f"option {changed!r} needs the query matrix; leave it at its default")
