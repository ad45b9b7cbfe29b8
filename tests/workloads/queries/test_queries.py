"""Workloads of tables of queries: from files or data frames, with their structure."""

from pathlib import Path

import numpy as np
import pytest

import workloads
from workloads.operators import Kronecker
from workloads.queries import domain_of


@pytest.mark.parametrize("place", [str, Path])
def test_queries_and_domain_are_tables_or_the_paths_of_files(place, tmp_path):
    (tmp_path / "d.yaml").write_text("age: 0..4\n")
    (tmp_path / "q.csv").write_text("age,variance\n<=*,3\n")
    made = workloads.from_queries(place(tmp_path / "q.csv"), place(tmp_path / "d.yaml"))
    np.testing.assert_array_equal(made.dense, np.tri(5))
    np.testing.assert_array_equal(made.stated.targets, 5 * [3.0])


def test_large_domains_keep_the_structure_of_the_queries():
    domain = domain_of({"age": "0..99", "area": [f"a{n}" for n in range(40)]})
    ages = [f"{first}..{first + 9}" for first in range(0, 100, 10)]
    frame = {"age": ["", *ages, "*"], "area": ["*", *10 * [""], "*"], "variance": [*range(1, 13)]}
    made = workloads.from_queries(frame, domain)
    assert isinstance(made.operator, Kronecker)
    assert made.operator.term_sizes == (40, 10, 4000)
    small = {name: [cells[at] for at in (0, 1, 10)] for name, cells in frame.items()}
    with_condition = {**small, "where": ["", "age < 100", ""]}
    plain = workloads.from_queries(with_condition, domain)
    assert not isinstance(plain.operator, Kronecker)
    kept = workloads.from_queries(small, domain).operator
    assert isinstance(kept, Kronecker)
    np.testing.assert_array_equal(kept.matrix().toarray(), plain.matrix.toarray())
