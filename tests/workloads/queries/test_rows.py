"""What the cells of a table of queries mean."""

import numpy as np
import pytest

import workloads
from workloads import WorkloadError

DOMAIN = {"age": "0..4", "sex": ["f", "m"], "area": ["north", "south", "65+"]}

AGES, SEXES, AREAS = np.meshgrid(np.arange(5), [0, 1], [0, 1, 2], indexing="ij")


def row(**cells):
    return {name: [value] for name, value in {"variance": "2", **cells}.items()}


def counted(workload):
    return workload.dense.reshape(-1, 5, 2, 3)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({}, np.ones((5, 2, 3))),
        ({"age": "3"}, AGES == 3),
        ({"age": 3.0}, AGES == 3),
        ({"age": " 1..3 "}, (AGES >= 1) & (AGES <= 3)),
        ({"age": "<=2"}, AGES <= 2),
        ({"age": ">= 2"}, AGES >= 2),
        ({"age": "0|2..3|3"}, np.isin(AGES, [0, 2, 3])),
        ({"sex": "f", "age": "1..3"}, (SEXES == 0) & (AGES >= 1) & (AGES <= 3)),
        ({"area": "65+"}, AREAS == 2),
        ({"area": "<=south"}, AREAS <= 1),
        ({"where": "age >= 3 and sex == 'f'"}, (AGES >= 3) & (SEXES == 0)),
        ({"where": "age >= 3", "area": "south"}, (AGES >= 3) & (AREAS == 1)),
        ({"sex": "f", "weight": "0.5"}, 0.5 * (SEXES == 0)),
        ({"coefficients": str(list(range(30))), "label": "own"}, np.arange(30).reshape(5, 2, 3)),
    ],
)
def test_a_cell_means_what_it_says(cells, expected):
    made = workloads.from_queries(row(**cells), DOMAIN)
    np.testing.assert_array_equal(counted(made), np.asarray(expected, float)[None])


def test_a_star_is_a_query_for_each_value():
    made = workloads.from_queries(row(age="<=*", sex="*", label="x"), DOMAIN)
    expected = [(age >= AGES) & (sex == SEXES) for age in range(5) for sex in (0, 1)]
    np.testing.assert_array_equal(counted(made), np.array(expected, float))
    assert made.labels[:3] == ("x: age<=0, sex=f", "x: age<=0, sex=m", "x: age<=1, sex=f")
    assert made.group_names == ("x",)


@pytest.mark.parametrize("name", ["own.npy", "own.csv"])
def test_coefficients_may_be_in_a_file_next_to_the_queries(name, tmp_path):
    values = np.linspace(-1, 1, 5)
    np.save(tmp_path / "own.npy", values)
    np.savetxt(tmp_path / "own.csv", values)
    (tmp_path / "d.yaml").write_text("age: 0..4\n")
    (tmp_path / "q.csv").write_text(f"label,coefficients,variance\nx,{name},1\n")
    files = str(tmp_path / "q.csv"), str(tmp_path / "d.yaml")
    np.testing.assert_allclose(workloads.from_queries(*files).dense, [values])
    with pytest.raises(WorkloadError, match="in an experiment write the list itself"):
        workloads.make("csv", queries=files[0], domain=files[1])
