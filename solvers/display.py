"""A solution in a few lines, as text and for notebooks."""

from html import escape
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from solvers.solution import Solution

_SHOWN = (
    "squared_privacy_cost",
    "lower_bound",
    "gap",
    "total_variance",
    "utility",
    "utility_bound",
    "max_variance",
)
"""Which numbers of a record `repr` shows, as far as it has them."""


def text(solution: "Solution") -> str:
    """The numbers that matter, on at most eleven lines."""
    numbers = (f"  {name:<21}{value:.9g}" for name, value in _numbers(solution))
    facts = (f"  {line}" for line in _circumstances(solution))
    return "\n".join([_heading(solution), *numbers, *facts])


def html(solution: "Solution") -> str:
    """The same as a table."""
    rows = [
        f'<tr><th scope="row">{escape(name.replace("_", " "))}</th><td>{value:.9g}</td></tr>'
        for name, value in _numbers(solution)
    ]
    rows += [f'<tr><td colspan="2">{escape(line)}</td></tr>' for line in _circumstances(solution)]
    caption = f"<caption><strong>{escape(_heading(solution))}</strong></caption>"
    return f"<table>{caption}{''.join(rows)}</table>"


def _heading(solution: "Solution") -> str:
    return f"{solution.mechanism} on {solution.problem.title}"


def _numbers(solution: "Solution") -> list[tuple[str, float]]:
    gap = {} if solution.known_lower_bound is None else {"gap": solution.gap}
    record = solution.record() | gap
    numbers = ((name, record.get(name, np.nan)) for name in _SHOWN)
    return [(name, value) for name, value in numbers if not np.isnan(value)]


def _circumstances(solution: "Solution") -> list[str]:
    ended = "converged" if solution.converged else "not converged"
    state = "timed out" if solution.timed_out else ended
    return [
        f"neighbours: {solution.neighbours}",
        f"{state} after {solution.iterations} iterations, {solution.runtime:.3g} s",
        f"noise: {type(solution.noise).__name__}; notes: {', '.join(solution.notes) or 'none'}",
    ]
