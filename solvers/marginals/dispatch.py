"""Which problems are solved in subset variables."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from solvers.errors import NotApplicableError
from solvers.marginals.forms import FORMS
from solvers.marginals.structure import structure
from solvers.mechanism import Mechanism
from solvers.problem import Problem, readable
from solvers.solution import Solution
from workloads.operators import LARGEST_MATRIX_BYTES, Marginals


def solver(
    mechanism: Mechanism, problem: Problem, options: Mapping[str, Any]
) -> Callable[[], Solution] | None:
    """The solve of a problem in subset variables; None if it takes the query matrix.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism asked for.
    problem : Problem
        The workload and its targets.
    options : Mapping[str, object]
        All options of the solve, defaults included.

    Returns
    -------
    callable or None

    Raises
    ------
    NotApplicableError
        If it takes the query matrix, and that of this workload is too large to build.
    """
    if not isinstance(problem.workload.operator, Marginals):
        return None
    known = structure(problem)
    form = FORMS.get(mechanism.name)
    if form is None:
        obstacle = f"it has no form in subset variables (there is one for {', '.join(FORMS)})"
    elif known is None:
        obstacle = "the targets differ within a marginal; give one for each marginal"
    else:
        option = form.obstacle(mechanism, options)
        if option is None:
            return partial(form.solve, known, **{name: options[name] for name in form.options})
        obstacle = f"option {option!r} needs the query matrix; leave it at its default"
    _refuse_if_too_large(mechanism.name, problem, obstacle)
    return None


def _refuse_if_too_large(name: str, problem: Problem, obstacle: str) -> None:
    m, d = problem.workload.shape
    if 8 * d * max(m, d) > LARGEST_MATRIX_BYTES:
        raise NotApplicableError(
            f"{name} on {readable(m)} queries over {readable(d)} cells: too large for query "
            f"matrices, and {obstacle}"
        )
