"""Every family against its definition in the papers."""

import numpy as np
import pytest
import scipy.sparse as sp

import workloads
from workloads import Workload, WorkloadError, make
from workloads.families import random_queries
from workloads.families.tables import RACES

RANGES = [[1, 0, 0], [1, 1, 0], [1, 1, 1], [0, 1, 0], [0, 1, 1], [0, 0, 1]]
A, C = [[1.0, 0.5], [0.0, 1.0]], [[1.0, 0.0]]
TOTAL, EYE = [[1, 1]], np.eye(2)
POWERS = [np.array(C) @ np.linalg.matrix_power(np.array(A), k) for k in range(4)]


@pytest.mark.parametrize(
    ("name", "params", "expected", "groups"),
    [
        ("prefix", {"d": 3}, [[[1, 0, 0], [1, 1, 0], [1, 1, 1]]], {}),
        ("identity-sum", {"d": 3}, [np.eye(3), np.ones((1, 3))], {"identity": 3, "total": 1}),
        ("all-range", {"d": 3}, [RANGES], {}),
        ("average", {"n": 4}, [[[0.25] * 4]], {}),
        ("average", {"n": 2, "weights": [0.9, 0.1]}, [[[0.9, 0.1]]], {}),
        ("dynamics", {"A": A, "C": C, "T": 3}, POWERS, {}),
        (
            "marginals",
            {"attributes": 2, "values": [3, 2], "orders": [1, 2], "ranges": [0]},
            [np.kron(RANGES, TOTAL), np.kron([[1, 1, 1]], EYE), np.kron(RANGES, EYE)],
            {"0": 6, "1": 2, "0,1": 12},
        ),
        (
            "kronecker",
            {"terms": [["identity:2", "total:3"], ["prefix:2", "all-range:3"]]},
            [np.kron(np.eye(2), np.ones((1, 3))), np.kron(np.tri(2), RANGES)],
            {"identity:2 x total:3": 2, "prefix:2 x all-range:3": 12},
        ),
    ],
)
def test_families_by_definition(name, params, expected, groups):
    workload = make(name, **params)
    assert (workload.name, workload.params | params) == (name, workload.params)
    np.testing.assert_array_equal(workload.dense, np.vstack(expected))
    assert dict(zip(workload.group_names, workload.group_sizes, strict=True)) == groups


@pytest.mark.parametrize(
    ("name", "params", "m"),
    [("range", {"d": 32}, 64), ("range", {"d": 32, "m": 5}, 5), ("wrange", {"d": 32}, 1024)],
)
def test_random_ranges_are_ranges(name, params, m):
    workload = make(name, **params)
    assert workload.shape == (m, 32)
    assert set(map(tuple, workload.dense)) <= set(map(tuple, make("all-range", d=32).dense))


@pytest.mark.parametrize(
    ("name", "params", "shape", "values", "probability"),
    [
        ("random", {"d": 100}, (200, 100), {-1.0, 1.0}, 0.2),
        ("random", {"d": 50, "m": 400, "probability": 0.7}, (400, 50), {-1.0, 1.0}, 0.7),
        ("wdiscrete", {"d": 100, "otherwise": 0, "m": 300}, (300, 100), {0.0, 1.0}, 0.02),
    ],
)
def test_two_valued_entries(name, params, shape, values, probability):
    dense = make(name, **params).dense
    assert dense.shape == shape
    assert set(np.unique(dense)) == values
    deviation = np.sqrt(probability * (1 - probability) / dense.size)
    assert abs(np.mean(dense == 1.0) - probability) < 5 * deviation


@pytest.mark.parametrize("name", ["random", "wdiscrete", "wrelated"])
def test_a_large_random_matrix_is_drawn_when_it_is_needed_and_is_the_same(name, monkeypatch):
    at_once = make(name, d=40, m=30, seed=3)
    monkeypatch.setattr(random_queries, "SMALL_ENTRIES", 0)
    later = make(name, d=40, m=30, seed=3)
    assert "array" not in vars(later.operator)
    assert (later.shape, later.operator.form_work) == ((30, 40), at_once.operator.form_work)
    assert "array" not in vars(later.operator)
    assert np.array_equal(later.dense, at_once.dense)
    assert later.matrix is later.operator.matrix()
    assert not later.matrix.flags.writeable


def test_wrelated_has_the_rank_it_is_made_with():
    assert make("wrelated", d=40).shape == (20, 40)
    dense = make("wrelated", d=40, m=30, s=7).dense
    assert dense.shape == (30, 40)
    assert np.linalg.matrix_rank(dense) == 7
    assert abs(np.mean(dense**2) - 7) < 2  # a sum of s products of N(0, 1): variance s


def test_wmarginal_draws_from_the_two_way_marginals():
    workload = make("wmarginal", d=24, m=2000, seed=1)
    pairs = make("marginals", attributes=4, values=[2, 2, 2, 3], orders=[2]).dense
    assert set(map(tuple, workload.dense)) == set(map(tuple, pairs))
    assert make("wmarginal", d=24, m=9, sizes=[4, 6]).shape == (9, 24)


@pytest.mark.parametrize(("voting_age", "m", "voting"), [(False, 348, 3), (True, 351, 6)])
def test_age_pyramid(voting_age, m, voting):
    workload = make("age", voting_age=voting_age)
    assert workload.shape == (m, 232)
    asked = [range(x + 1) for x in range(116)] + [range(18, 116)] * voting_age
    one_sex = np.array([[float(age in ages) for age in range(116)] for ages in asked])
    none = np.zeros_like(one_sex)
    expected = np.block([[one_sex, none], [none, one_sex], [one_sex, one_sex]])
    np.testing.assert_array_equal(workload.dense, expected)
    assert workload.group_names == ("voting", "other")
    assert workload.group_sizes == (voting, m - voting)
    special = [set(ages) in (set(range(18)), set(range(18, 116))) for ages in asked] * 3
    np.testing.assert_array_equal(workload.groups == 0, special)


def test_factors_of_ones_own_are_a_union_of_products():
    matrix, sums = [[1, 1, 0], [0, 1, 1]], sp.csr_matrix(np.ones((1, 4)))
    workload = workloads.from_factors([(matrix, sums), (matrix, sp.eye(4, format="coo"))])
    expected = np.vstack([np.kron(matrix, np.ones((1, 4))), np.kron(matrix, np.eye(4))])
    np.testing.assert_array_equal(workload.dense, expected)
    assert workload.group_names == ("1", "2")
    asked = make("kronecker", terms=[[matrix, "total:4"], [matrix, "identity:4"]])
    np.testing.assert_array_equal(asked.dense, expected)
    assert asked.group_names[0] == "2 by 3 matrix x total:4"


@pytest.mark.parametrize(
    ("terms", "sentence"),
    [
        ([()], "no products, or a product without factors"),
        ([(np.eye(2), np.eye(3)), (np.eye(2),)], r"product .2. is over attributes of \(2,\)"),
        ([(np.eye(2), [[np.nan, 1]])], "factor 2 of product 1' has a NaN"),
        ([(np.eye(2), [1, 2])], r"factor 2 of product 1' has shape \(2,\)"),
    ],
)
def test_mistakes_in_factors_are_reported(terms, sentence):
    with pytest.raises(WorkloadError, match=sentence):
        workloads.from_factors(terms)


MATRIX = np.array([[1.0, 2.0, 0.0], [0.0, -1.0, 4.0]])


def test_files_dense_and_sparse(tmp_path):
    np.save(tmp_path / "a.npy", MATRIX)
    np.savez(tmp_path / "one.npz", only=MATRIX)
    np.savez(tmp_path / "two.npz", first=MATRIX, second=2 * MATRIX)
    sp.save_npz(tmp_path / "sparse.npz", sp.csr_array(MATRIX))
    for name in ("a.npy", "one.npz", "sparse.npz"):
        np.testing.assert_array_equal(make("file", path=str(tmp_path / name)).dense, MATRIX)
    chosen = make("file", path=str(tmp_path / "two.npz"), array="second")
    np.testing.assert_array_equal(chosen.dense, 2 * MATRIX)
    assert sp.issparse(make("file", path=str(tmp_path / "sparse.npz")).matrix)


def test_bad_files_are_refused(tmp_path):
    (tmp_path / "text.npy").write_text("1 2 3")
    (tmp_path / "torn.npz").write_bytes(b"PK\x03\x04 torn")
    np.save(tmp_path / "flat.npy", np.ones(3))
    np.save(tmp_path / "nan.npy", np.array([[1.0, np.nan]]))
    np.savez(tmp_path / "two.npz", first=MATRIX, second=MATRIX)
    for name, sentence in {
        "missing.npy": "cannot be read .*No such file",
        "text.npy": "cannot be read .*; expected a .npy or .npz file",
        "torn.npz": "cannot be read",
        "flat.npy": r"has shape \(3,\); expected a matrix",
        "nan.npy": "NaN or infinite entry at row 0, column 1",
        "two.npz": "holds 2 arrays, and array is None; expected one of: first, second",
    }.items():
        with pytest.raises(WorkloadError, match=sentence):
            make("file", path=str(tmp_path / name))
    with pytest.raises(WorkloadError, match="array is 'frist'; did you mean 'first'"):
        make("file", path=str(tmp_path / "two.npz"), array="frist")


def test_entry_points(tmp_path, monkeypatch):
    source = "import numpy as np\ndef twice(d):\n    return 2 * np.eye(d)\nnumber = 3\n"
    source += "def leaves():\n    raise SystemExit(0)\n"
    (tmp_path / "my_queries.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    workload = make("entry-point", function="my_queries:twice", arguments={"d": 3})
    np.testing.assert_array_equal(workload.dense, 2 * np.eye(3))
    for function, arguments, sentence in [
        ("my_queries", {}, "cannot be loaded .*; expected 'module:function'"),
        ("my_querys:twice", {}, "cannot be loaded"),
        ("my_queries:thrice", {}, "cannot be loaded"),
        ("my_queries:number", {}, "is not a function"),
        ("my_queries:twice", {"n": 3}, "does not take {'n': 3}"),
        ("my_queries:leaves", {}, "SystemExit"),
    ]:
        with pytest.raises(WorkloadError, match=sentence):
            make("entry-point", function=function, arguments=arguments)


@pytest.mark.parametrize(
    ("name", "params", "sentence"),
    [
        ("prefx", {}, "no workload is called 'prefx'; did you mean 'prefix'"),
        ("prefix", {"dd": 4}, "workload 'prefix' does not take 'dd'; did you mean 'd'"),
        ("pl94", {"d": 4}, "workload 'pl94' does not take 'd'; it takes none"),
        ("prefix", {}, r"workload 'prefix' needs parameter 'd' \(a whole number \(at least 1"),
        ("prefix", {"d": 0}, r"workload 'prefix': d is 0; expected a whole number \(at least 1"),
        ("prefix", {"d": 4.5}, "d is 4.5; expected a whole number"),
        ("kronecker", {"terms": ["prefix:3"]}, "a list of lists of texts or lists"),
        ("kronecker", {"terms": [[[[1.0], [1.0, 2.0]]]]}, "kronecker, a factor.* is not a matrix"),
        ("marginals", {"ranges": [3]}, "no attribute is called 3; expected one of: 0, 1, 2"),
        ("marginals", {"ranges": [0], "prefixes": [0]}, "attribute 0 is listed twice"),
        ("age", {"voting_age": 1}, "voting_age is 1; expected true or false"),
        ("range", {"d": 4, "seed": -1}, r"seed is -1; expected a whole number \(at least 0\)"),
        ("random", {"d": 4, "probability": 1.2}, r"probability is 1.2; .*at most 1\)"),
        ("wmarginal", {"d": 12, "sizes": [3, 3]}, "at least two positive sizes"),
        ("kronecker", {"terms": [["prefx:3"]]}, "factor is called 'prefx'; did you mean"),
        ("kronecker", {"terms": [["prefix"]]}, "has no size; give it one, as in 'prefix:4'"),
        ("dynamics", {"A": [[1], [1, 0]], "C": [[1]], "T": 1}, "lengths are .1, 2, 1.;"),
        ("average", {"n": 3, "weights": [1, 1, 1]}, "expected n weights that sum to 1"),
        ("wdiscrete", {"d": 2, "m": 1, "probability": 0, "otherwise": 0}, "has only zero entries"),
        ("marginals", {"values": [2, 2]}, "2 sizes in values for 3 attributes"),
        ("marginals", {"orders": [4]}, "order 4 in orders; expected 0 to 3"),
        ("marginals", {"values": 2.5}, "2.5; expected a whole number or a list of whole numbers"),
        ("census", {"tables": [["agee"]]}, "no attribute is called 'agee'; did you mean 'age'"),
        ("census", {"tables": [["age", "sex"], ["sex", "age"]]}, "the table is listed twice"),
        ("census", {"tables": []}, "at least one table"),
        ("census", {"tables": [["age"]], "attributes": {"age": 2.5}}, "names to whole numbers"),
        ("census", {"tables": [["age", "age"]]}, "an attribute is listed twice"),
    ],
)
def test_bad_input_is_one_sentence(name, params, sentence):
    if name == "census":
        params = {"attributes": {"age": 4, "sex": 2}, **params}
    with pytest.raises(WorkloadError, match=sentence) as caught:
        make(name, **params)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("matrix", "sentence"),
    [
        (np.ones(3), "expected a matrix"),
        ([], "at least one query"),
        ([[1.0, 2.0], [3.0]], "is not a matrix"),
        ([["a"]], "not real numbers"),
        (np.zeros((2, 2)), "has only zero entries"),
        (np.array([[0.0, 1.0], [np.inf, 0.0]]), "row 1, column 0"),
        (sp.csr_array([[0.0, 1.0], [0.0, np.nan]]), "row 1, column 1"),
    ],
)
def test_bad_matrices_are_refused(matrix, sentence):
    with pytest.raises(WorkloadError, match=sentence):
        workloads.from_matrix(matrix, "mine")


@pytest.mark.parametrize(
    ("groups", "sentence"),
    [
        ({"group_names": ("a",), "group_sizes": (2,)}, "1 group sizes that sum to 2,"),
        ({"group_names": ("a",), "group_sizes": (3,)}, "0 queries with a group; .* of 3 queries"),
        ({"groups": np.zeros(3, dtype=np.int64)}, "3 queries with a group"),
        ({"labels": ("a", "b")}, "2 labels for 3 queries"),
    ],
)
def test_groups_and_labels_must_cover_the_queries(groups, sentence):
    with pytest.raises(WorkloadError, match=sentence):
        Workload("mine", make("prefix", d=3).operator, **groups)


def test_range_end_points_are_uniform():
    """A range misses cell i when both of its uniform ends are before i, or both after it."""
    d, m = 8, 40_000
    covered = make("range", d=d, m=m, seed=3).dense.mean(axis=0)
    cell = np.arange(d)
    outside = (cell**2 + (d - 1 - cell) ** 2) / d**2
    assert np.all(np.abs(covered - (1 - outside)) < 5 * 0.5 / np.sqrt(m))


def test_pl94_queries_of_the_description():
    """Each person is in one query of a, one of b, one of c or d, and one of e."""
    workload = make("pl94")
    assert len(set(RACES)) == len(RACES) == 63
    dense, names = workload.dense, np.array(workload.group_names)[workload.groups]
    np.testing.assert_array_equal(dense.sum(axis=0), np.full(252, 4.0))
    ages, ethnicities, races = np.unravel_index(np.arange(252), (2, 2, 63))
    np.testing.assert_array_equal(dense[names == "voting-age"], [ages == 0, ages == 1])
    np.testing.assert_array_equal(dense[names == "ethnicity"], [ethnicities == 0, ethnicities == 1])
    np.testing.assert_array_equal(dense[names == "identity"], np.eye(252))
    one = [race for race, chosen in enumerate(RACES) if len(chosen) == 1]
    several = [race for race, chosen in enumerate(RACES) if len(chosen) >= 2]
    np.testing.assert_array_equal(dense[names == "one-race"], [races == r for r in one])
    np.testing.assert_array_equal(dense[names == "several-races"], [races == r for r in several])
