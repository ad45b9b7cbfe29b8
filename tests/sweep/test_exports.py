"""Tables for other documents: what stands in them, and that every format says the same."""

import csv
import io
import json
import re
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from test_report import MEASURED, OK, PUBLISHED, experiment
from written import dataset

import sweep
from sweep.dataset import pivots
from sweep.errors import SweepError
from sweep.experiment.loading import experiments, load_experiment
from sweep.experiment.schema import ComparisonTable
from sweep.report import formats, tables
from sweep.report.tables import Wanted, table
from sweep.store.records import Status

REPLICATED = dataset(
    {"d": [4, 8], "replicate": [0, 1, 2], "mechanism": ["CA", "IP"]},
    {
        "variance_ratio": [[[1, 2], [1, 4], [1, 6]], [[1, 8], [1, 9], [1, 77]]],
        "gap": 0.25,
    },
    [[[OK, OK]] * 3, [[OK, OK], [OK, OK], [OK, int(Status.FAILED)]]],
)


def described(data, **content):
    """The dataset with the attributes by which its experiment is known."""
    made = experiment(**content)
    return data.assign_attrs(experiment=made.name, experiment_text=made.text), made


def test_a_frame_has_a_row_for_every_cell_and_a_column_for_every_budget():
    data = dataset(
        {"d": [4, 8], "mechanism": ["CA", "IP"]},
        {"gap": [[0.0, 1.0], [2.0, np.nan]]},
        [[OK, OK], [int(Status.FAILED), int(Status.ABSENT)]],
    ).assign_coords(delta=[1e-5, 1e-9])
    data["epsilon_at_targets"] = (("d", "mechanism", "delta"), np.arange(8.0).reshape(2, 2, 2))
    tree = xr.DataTree.from_dict({"one": data, "two": data.isel(d=[0])})
    frame = sweep.to_frame(tree)
    assert frame.columns[:3].tolist() == ["group", "d", "mechanism"]
    assert frame["status"].tolist() == ["ok", "ok", "failed", "ok", "ok"]
    assert frame["group"].tolist() == ["one"] * 3 + ["two"] * 2
    assert frame["epsilon_at_targets[delta=1e-09]"].tolist() == [1, 3, 5, 1, 3]


def test_a_frame_of_a_store_is_that_of_its_dataset(swept, tmp_path):
    data = swept(tmp_path / "store")
    of_store = sweep.to_frame(tmp_path / "store")
    assert of_store.equals(sweep.to_frame(data))
    assert of_store.groupby("mechanism").squared_privacy_cost.max().to_dict() == {"GM": 4, "IP": 4}


def test_means_come_with_their_spread():
    found = table(REPLICATED, Wanted())
    assert found.shown.loc["4", "IP"] == "4.000 ± 1.155"  # 2, 4, 6: 2 / sqrt(3)
    assert found.shown.loc["8", "IP"] == "8.500 ± 0.500 (2/3)"
    assert found.shown.loc["4", "CA"] == "1.000"
    (entry,) = [
        e for e in found.entries.to_dict("records") if (e["d"], e["mechanism"]) == (8, "IP")
    ]
    assert (entry["minimum"], entry["maximum"], entry["ok"], entry["cells"]) == (8, 9, 2, 3)
    assert entry["state"] == "failed"
    ranges = table(REPLICATED, Wanted(spread="range"))
    assert ranges.shown.loc["4", "IP"] == "4.000 [2.000, 6.000]"
    close = REPLICATED.assign(variance_ratio=1 + REPLICATED["variance_ratio"] * 1e-5)
    assert table(close, Wanted()).shown.loc["4", "IP"] == "1.000 ± <0.001", "no error is zero"
    bare = table(REPLICATED, Wanted(spread="none"))
    assert bare.shown.loc["4", "IP"] == "4.000"
    assert "Means over 3 replicates." in bare.notes


def test_rows_columns_and_conditions_can_be_asked_for():
    turned = table(REPLICATED, Wanted(rows=("mechanism",), columns="d", where="d > 4"))
    assert turned.shown.columns.tolist() == ["d = 8"]
    assert turned.shown["d = 8"].tolist() == ["1.000", "8.500 ± 0.500 (2/3)"]
    several = dataset(
        {"k": [1, 2], "d": [4, 8], "mechanism": ["CA", "IP"]},
        {"variance_ratio": np.arange(8.0).reshape(2, 2, 2)},
    )
    by_d = table(several, Wanted(rows=("d",)))
    assert by_d.shown.index.names == ["d", "k"], "what varies is never averaged in silence"
    assert by_d.shown.loc[("8", "2"), "IP"] == "7.000"


def test_means_say_of_how_many_numbers_they_are_where_a_replicate_has_none():
    data = REPLICATED.assign(variance_ratio=REPLICATED["variance_ratio"].astype(float))
    data["variance_ratio"].loc[4, 1, "IP"] = np.nan  # its reference has failed
    found = table(data, Wanted(spread="none"))
    assert found.shown.loc["4", "IP"] == "4.000 (2/3)"
    assert any(note.startswith("(k/n)") for note in found.notes)


def test_labels_stand_in_the_grids_order_where_cells_are_missing():
    absent = int(Status.ABSENT)
    data = dataset(
        {"k": [1, 2], "d": [4, 8], "mechanism": ["CA", "IP"]},
        {"variance_ratio": np.arange(8.0).reshape(2, 2, 2)},
        [[[absent, absent], [absent, OK]], [[OK, OK], [OK, OK]]],
    )
    assert table(data, Wanted()).shown.columns.tolist() == ["CA", "IP"]
    assert table(data, Wanted(columns="d")).shown.columns.tolist() == ["d = 4", "d = 8"]
    by_d = table(data, Wanted(rows=("d",))).shown.index.tolist()
    assert by_d == [("4", "2"), ("8", "1"), ("8", "2")]


def test_cells_that_share_a_zipped_label_are_not_averaged():
    data = dataset(
        {"d": [4, 8, 16], "mechanism": ["CA"]}, {"variance_ratio": [[1.0], [2.0], [9.0]]}
    ).assign_coords(size=("d", ["small", "small", "large"]), half=("d", [2, 4, 8]))
    by_size = table(data, Wanted(rows=("size",))).shown
    assert by_size["CA"].to_dict() == {
        ("small", "4"): "1.000",
        ("small", "8"): "2.000",
        ("large", "16"): "9.000",
    }
    assert table(data, Wanted(rows=("half",))).shown.index.tolist() == ["2", "4", "8"]


@pytest.mark.parametrize("named", ["half", "d"])
def test_published_numbers_are_found_by_coordinates_that_are_no_rows(named):
    published = {
        "variable": "variance_ratio",
        "axes": {named: [2], "mechanism": ["IP", "CA"]},
        "values": [[2.0, 1.0]],
    }
    if named == "half":
        data = MEASURED.assign_coords(half=("d", [2, 4]))
    else:
        data = MEASURED.isel(d=0).assign_coords(d=2)
    described_, made = described(data, published=[published])
    (found,) = tables.all_tables(described_, made)
    known = found.entries.dropna(subset="published")
    assert known[["mechanism", "ratio"]].values.tolist() == [["IP", 1.25], ["CA", 1.0]]


def test_json_keeps_every_digit():
    tiny = 1.2345678901234567e-12
    data = MEASURED.assign(variance_ratio=MEASURED["variance_ratio"] * tiny)
    content = json.loads(formats.to_json([table(data, Wanted())]))
    assert tiny in [entry["mean"] for entry in content["tables"][0]["entries"]]


def test_every_budget_has_a_column_of_its_own():
    data = MEASURED.assign_coords(epsilon=[1.0000001, 1.0000002])
    data["k"] = (("d", "mechanism", "epsilon"), np.arange(12.0).reshape(2, 3, 2))
    frame = sweep.to_frame(data)
    assert frame["k[epsilon=1.0000002]"].tolist() == [1, 3, 5, 7, 9, 11]
    assert frame["k[epsilon=1.0000001]"].tolist() == [0, 2, 4, 6, 8, 10]


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (Wanted(value="varience_ratio"), "did you mean 'variance_ratio'"),
        (Wanted(value="status"), "no variable 'status' of numbers"),
        (Wanted(rows=("mechanisms",), columns="d"), "did you mean 'mechanism'"),
        (Wanted(where="dd > 3"), "uses 'dd'"),
        (Wanted(where="d > 8"), "holds for no cell"),
        (Wanted(rows=("mechanism",)), "in rows and in columns"),
        (Wanted(rows=("d", "d")), "rows d, d: name each coordinate once"),
    ],
)
def test_what_does_not_exist_is_said(wanted, said):
    with pytest.raises(SweepError, match=re.escape(said)):
        table(REPLICATED, wanted)


def test_every_format_has_the_same_numbers():
    data, made = described(MEASURED, published=[PUBLISHED])
    found = tables.all_tables(data, made)
    first = found[0].entries.iloc[0]
    assert (first["mechanism"], first["published"], first["ratio"]) == ("IP", 2.0, 1.25)
    for form in ("markdown", "latex", "html"):
        text = formats.RENDERERS[form](found)
        missing = [one for one in ("2.500", "1.250", "Table 1") if one not in text]
        assert missing == [], form
    lines = list(csv.DictReader(io.StringIO(formats.csv(found))))
    entries = json.loads(formats.to_json(found))["tables"][0]["entries"]
    for read in (lines, entries):
        (one,) = [e for e in read if (str(e["d"]), e["mechanism"]) == ("8", "GM")]
        assert float(one["mean"]) == 7
        assert not one["published"]


def test_every_export_names_the_neighbours():
    data, made = described(MEASURED.assign_attrs(neighbours="replace-one"), published=[PUBLISHED])
    for found in (tables.all_tables(data, made), tables.requested(data, made, Wanted())):
        for form in ("markdown", "latex", "html", "json"):
            assert "Neighbours: replace-one." in formats.RENDERERS[form](found), form


def test_latex_breaks_the_lines_of_sentences():
    claim = {
        "text": "somebody who reads the paper would not read this in a column as wide as all of it",
        "unjudged": "the number is missing in our copy of the text",
    }
    data, made = described(MEASURED, published=[PUBLISHED], claims=[claim])
    both = tables.all_tables(data, made)
    numbers, stated = (formats.latex([one]) for one in both)
    assert r"\linewidth}>" not in numbers
    assert r"\raggedright" in stated
    assert '<th scope="col">verdict</th>' in formats.html(both)


def test_latex_fits_a_page_of_two_columns_and_numbers_are_the_users():
    def of(names):
        data = dataset({"d": [4, 8], "mechanism": names}, {"variance_ratio": 1.0})
        return described(data, published=[{**PUBLISHED, "title": "Table 5"}])

    data, made = of([f"M{at}" for at in range(12)])
    wide, again = (formats.latex(tables.all_tables(data, made) * count) for count in (1, 2))
    assert r"\begin{table*}" in wide
    assert "(Table 5)}" in wide
    assert r"\caption{Table" not in wide
    assert len(set(re.findall(r"\\label\{(.*)\}", again))) == 2
    swapped = formats.latex(tables.all_tables(*of([f"mechanism {at}" for at in range(12)])))
    assert re.search(r"mechanism 3 & [^\n]* & ", swapped)
    assert "d = 4, measured & d = 8, measured" in swapped
    (narrow,) = tables.all_tables(*described(MEASURED, published=[PUBLISHED]))
    assert r"\begin{table}" in formats.latex([narrow])


def test_conditions_rows_and_columns_keep_the_papers_numbers():
    data, made = described(MEASURED, published=[PUBLISHED])
    (chosen,) = tables.requested(data, made, Wanted(where="d > 4"))
    assert chosen.shown.loc[("8", "paper"), "IP"] == "4.00"
    assert ("4", "paper") not in chosen.shown.index
    (turned,) = tables.requested(data, made, Wanted(columns="d"))
    assert turned.shown.loc[("IP", "paper")].tolist() == ["2.00", "4.00"]
    assert turned.shown.loc[("GM", "measured")].tolist() == ["3.000", "7.000"]
    (other,) = tables.requested(data, made, Wanted("gap"))
    assert "paper" not in other.shown.index.get_level_values(-1)


def hostile():
    label = "<script>alert(1)</script> | 100% $_{~^\\ & #"
    data = dataset({"mechanism": ["CA", label]}, {"variance_ratio": [1.0, 2.0]})
    return [table(data, Wanted(), title=label)]


def test_texts_of_users_are_escaped():
    assert "<script" not in formats.html(hostile())
    assert "<script" not in formats.markdown(hostile())
    assert r"\$\_\{\textasciitilde{}\textasciicircum{}\textbackslash{} \& \#" in formats.latex(
        hostile()
    )


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="pdflatex is not installed")
def test_latex_compiles_as_it_is_and_within_a_document(tmp_path):
    claim = {"variable": "gap", "text": "a claim of more than sixty characters " * 3}
    data, made = described(REPLICATED, published=[PUBLISHED], claims=[claim])
    (tmp_path / "table.tex").write_text(formats.latex([*tables.all_tables(data, made), *hostile()]))
    (tmp_path / "paper.tex").write_text(
        "\\documentclass{article}\\usepackage[T1]{fontenc}\\usepackage{array,booktabs,graphicx}\n"
        "\\begin{document}before\\input{table}after\\end{document}\n"
    )
    for name in ("table", "paper"):
        ran = subprocess.run(
            ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", f"{name}.tex"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout[-2000:]
        assert "Overfull" not in ran.stdout


def test_the_command_line_shows_any_variable_in_any_format(swept, tmp_path, command, monkeypatch):
    swept(tmp_path / "store")
    store = str(tmp_path / "store")
    rows = csv.DictReader(io.StringIO(command("show", store, "--format", "csv").stdout))
    assert {(row["d"], row["mechanism"]) for row in rows} >= {("2", "IP"), ("4", "GM")}
    shown = command("show", store, "--value", "squared_privacy_cost", "--rows", "d")
    assert shown.exit_code == 0
    assert ["4", "4.000", "4.000"] in [line.split() for line in shown.stdout.splitlines()]
    for words, said in (
        (["--format", "pdf"], "expected one of: text, markdown"),
        (["--value", "gapp"], "did you mean 'gap'"),
        (["--spread", "wide"], "expected one of: error, range, none"),
        (["--claims"], "experiment 'small' has no claims; drop --claims"),
    ):
        refused = command("show", store, *words)
        assert refused.exit_code == 2
        assert said in refused.stderr
    state = json.loads(command("status", store, "--json").stdout)
    assert state["statuses"] == {"ok": 4}
    assert state["running"] is None
    listed = json.loads(command("list", "mechanisms", "--json").stdout)
    assert {"name", "summary", "source", "params", "presets"} == set(listed["mechanisms"][0])


def test_means_over_different_numbers_of_replicates_say_so():
    absent = int(Status.ABSENT)
    coords = {"replicate": [0, 1, 2], "d": [4, 8], "mechanism": ["CA"]}
    states = np.full((3, 2, 1), OK)
    states[1:, 1] = absent
    found = table(dataset(coords, {"variance_ratio": 1.0}, states), Wanted(spread="none"))
    assert "Means over 1 to 3 replicates." in found.notes


def test_small_ratios_large_numbers_and_printed_zeros_keep_their_digits():
    assert [tables.ratio(value) for value in (0.0001234, 0.5)] == ["0.000123", "0.500"]
    assert pivots.significant(1234.4) == "1234"
    assert tables.printed(101789.5397) == "101789.5397"
    beside = ComparisonTable(variable="gap", axes={"mechanism": ("CA",)}, values=[0.0])
    entries = pd.DataFrame({"mechanism": ["CA"], "mean": [0.5]})
    assert tables.with_published(entries, beside)["ratio"].isna().all()


def test_every_text_that_ships_can_be_set_by_latex():
    for name in experiments():
        made = load_experiment(name)
        parts = [made.title, *(f"{one.text} {one.source} {one.unjudged}" for one in made.claims)]
        parts += [f"{one.title} {one.source}" for one in (*made.published, *made.closed_form)]
        odd = {c for part in parts for c in formats._in_latex(part) if ord(c) > 0xFF} - {*"–…"}
        assert not odd, name
