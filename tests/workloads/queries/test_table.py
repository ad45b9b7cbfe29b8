"""Files and tables of queries as people write them, and the message for each mistake."""

import re

import numpy as np
import pytest

import workloads
from workloads import WorkloadError
from workloads.queries import domain_of

DOMAIN = {"age": "0..4", "sex": ["f", "m"], "area": ["north", "south", "65+"]}


@pytest.mark.parametrize(
    ("cells", "variance"),
    [
        ({"variance": "4"}, 4.0),
        ({"standard_error": "3"}, 9.0),
        ({"margin": "1.6448536269514722", "confidence": "90%"}, 1.0),
        ({"margin": "2.5758293035489004", "confidence": "0.99"}, 1.0),
    ],
)
def test_targets_are_variances_in_the_end(cells, variance):
    made = workloads.from_queries({name: [value] for name, value in cells.items()}, DOMAIN)
    assert made.stated.targets == pytest.approx([variance], rel=1e-12)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "mine.csv: empty; expected a header"),
        ("age\n3\n", "no column of targets; add one of: variance, standard_error, margin"),
        ("aeg,variance\n3,1\n", "column 'aeg': neither an attribute .* did you mean 'age'"),
        ("age,variance\n3,1\n7,1\n", "line 3, column 'age': '7' is not a value of 'age'; .*0, 1"),
        ("area,variance\nsuoth,1\n", "line 2, column 'area': 'suoth' .* did you mean 'south'"),
        (
            "area,variance\nsouth..north,1\n",
            "'south..north' selects no value of 'area'; its order is",
        ),
        ("age,variance\n3,-1\n", "line 2, column 'variance': '-1'; expected a positive"),
        ("age,variance\n3,nan\n", "'nan' is not a number"),
        ("age;variance\n3;2,5\n", "'2,5' is not a number; write decimals after a point"),
        (
            "age;margin\n3;2.5\n4;1.200\n",
            "line 3, column 'margin': '1.200' .*can mean 1200.*1.2000",
        ),
        ("age;variance;weight\n3;1;-37.125\n", "column 'weight': '-37.125' is .*can mean -37125"),
        ("age;margin;confidence\n3;1;95.000%\n", "'95.000%' is .*can mean 95000%"),
        ("age,variance\n3,\n", "line 2, column 'variance': no target"),
        ("age,variance,margin\n3,1,1\n", "column 'margin': a second target, beside 'variance'"),
        ("margin,confidence\n3,95\n", "'95'; expected a number between 0 and 1, such as 0.95"),
        ("age,age,variance\n3,3,1\n", "column 'age': it is listed twice"),
        (",".join(f"c{n}" for n in range(100_000)) + "\n", "no queries; expected one"),
        ("age,variance\n3,1,\n", "line 2: 3 cells, and the header names 2 columns"),
        ('age,variance\n"3,1\n', "line 2: not valid CSV"),
        ("label,age,variance\na,3,1\na,4,1\n", "line 3, column 'label': 'a' names .*, line 2"),
        ("where,variance\nagee > 3,1\n", "column 'where': .*no attribute; did you mean 'age'"),
        ("where,variance\nage > 'x',1\n", "column 'where': condition .* cannot be evaluated"),
        ("where,variance\nage > 9,1\n", "column 'where': 'age > 9' holds for no cell"),
        ('label,coefficients,variance\nx,"[1,2]",1\n', "2 values of type int64; expected 30 num"),
        ('label,coefficients,variance\nx,"[1,",1\n', "not a list of numbers"),
        ("label,coefficients,variance\nx,no.npy,1\n", "file 'no.npy' cannot be read"),
        ('coefficients,variance\n"[1]",1\n', "column 'label': empty; a query given by its"),
        ("weight,variance\n0,1\n", "column 'weight': '0'; expected a number other than 0"),
    ],
)
def test_mistakes_are_reported_with_line_and_column(text, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "domain.yaml").write_text("age: 0..4\nsex: [f, m]\narea: [north, south, '65+']\n")
    (tmp_path / "mine.csv").write_text(text)
    with pytest.raises(WorkloadError, match=said) as error:
        workloads.from_queries("mine.csv", "domain.yaml")
    assert "mine.csv" in str(error.value)


def test_spreadsheets_files_are_read(tmp_path):
    """Byte-order mark, semicolons, Windows lines, an empty column and an empty row."""
    (tmp_path / "d.yaml").write_text("age: 0..4\n")
    content = "﻿label;age;variance;\r\na;3;2.5;\r\n;;;\r\nb;*;1;\r\n"
    (tmp_path / "q.csv").write_bytes(content.encode())
    made = workloads.from_queries(str(tmp_path / "q.csv"), str(tmp_path / "d.yaml"))
    assert made.labels == ("a", *(f"b: age={age}" for age in range(5)))
    np.testing.assert_array_equal(made.stated.targets, [2.5, *5 * [1.0]])


@pytest.mark.parametrize("text", ["age,margin\n3,1.200\n", "age;margin\n3;1.2000\n"])
def test_decimals_that_cannot_mean_thousands_are_read(text, tmp_path):
    (tmp_path / "q.csv").write_text(text)
    made = workloads.from_queries(str(tmp_path / "q.csv"), domain_of({"age": "0..4"}))
    assert made.stated.targets == pytest.approx([(1.2 / 1.959963984540054) ** 2])


def test_unreadable_files_are_refused(tmp_path):
    (tmp_path / "d.yaml").write_text("age: 0..4\n")
    (tmp_path / "latin.csv").write_bytes("label,variance\nM\xfcnchen,1\n".encode("latin-1"))
    for name, said in [("none.csv", "No such file"), (".", "not a regular file")]:
        with pytest.raises(WorkloadError, match=said):
            workloads.from_queries(str(tmp_path / name), str(tmp_path / "d.yaml"))
    with pytest.raises(WorkloadError, match="not UTF-8 text; save it as UTF-8"):
        workloads.from_queries(str(tmp_path / "latin.csv"), str(tmp_path / "d.yaml"))
    for frame in (3, {"variance": [1], "age": [1, 2]}):
        with pytest.raises(WorkloadError, match=re.compile("expected a data frame|lengths")):
            workloads.from_queries(frame, DOMAIN)
