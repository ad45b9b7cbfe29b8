"""Problems on marginals, small enough for the dense solvers."""

import numpy as np
from hypothesis import strategies as st

import solvers
import workloads
from solvers.forms.orbits import OnMarginals, OnOrbits
from solvers.problem import Problem

MECHANISMS = tuple(
    name
    for name, m in solvers.all_mechanisms().items()
    if issubclass(m, OnOrbits | OnMarginals)
    if name != "ResidualPlanner"  # on nothing else
)
VALUES = (0.1, 1.0, 1.0, 2.5, 30.0)


FOUR_GROUPS = [
    ["prefix:5", "total:3", "total:2"],
    ["prefix:5", "identity:3", "total:2"],
    ["identity:5", "identity:3", "identity:2"],
    ["total:5", "total:3", "identity:2"],
]


def four_groups():
    """A workload with an ordered attribute, and a target for each group."""
    workload = workloads.make("kronecker", terms=FOUR_GROUPS)
    return workload, workloads.targets.make("by-group", workload, values=[1.0, 2.0, 4.0, 1.0])


@st.composite
def problems(draw, least_size=1, most_cells=60):
    """Marginals of up to four attributes; some of their targets are equal."""
    sizes = draw(
        st.lists(st.integers(least_size, 5), min_size=1, max_size=4).filter(
            lambda sizes: np.prod(sizes) <= most_cells
        )
    )
    every = [[i for i in range(len(sizes)) if code >> i & 1] for code in range(2 ** len(sizes))]
    subsets = draw(st.lists(st.sampled_from(every), min_size=1, max_size=6, unique_by=tuple))
    values = draw(st.lists(st.sampled_from(VALUES), min_size=6, max_size=6))
    return make(sizes, subsets, values[: len(subsets)])


def make(sizes, subsets, values):
    """One target for each marginal."""
    workload = workloads.make("marginals", attributes=len(sizes), values=sizes, subsets=subsets)
    spread = np.repeat(np.asarray(values, dtype=float), workload.group_sizes)
    return Problem(workload, spread)
