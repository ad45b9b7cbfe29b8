"""Tables: their numbers side by side, on a screen and in every format."""

import csv
import io
import json
import re
import shutil

import numpy as np
import pytest
import xarray as xr
from programs import ran
from rich.console import Console
from rich.table import Table
from written import MEASURED, REPLICATED, compared, dataset, described

import sweep
from sweep import events
from sweep.errors import SweepError
from sweep.experiment.files import list_experiments
from sweep.experiment.loading import load_experiment
from sweep.report import formats, tables
from sweep.report.consoles import Terminal
from sweep.report.messages import ProgressBar
from sweep.report.tables import Wanted, make_table, make_tables
from sweep.store.records import Status

OK, ABSENT, FAILED = int(Status.OK), int(Status.ABSENT), int(Status.FAILED)
PUBLISHED = {
    "variable": "variance_ratio",
    "title": "Table 1",
    "source": "A paper",
    "axes": {"d": [4, 8], "mechanism": ["IP", "CA"]},
    "values": [[2.0, 1.0], [4.0, 1.0]],
}


def made(data, wanted=None, **content):
    return make_tables(data, compared(**content), wanted or Wanted(spread="none"))


def rendered(found, width=100):
    console = Console(width=width, record=True, file=io.StringIO())
    formats.show(found, console)
    return console.export_text()


def lines(data, **content):
    """The lines of a screen, each as its words."""
    return [line.split() for line in rendered(made(data, **content)).splitlines() if line.strip()]


@pytest.mark.parametrize("kind", ["paper", "closed form"])
def test_measured_numbers_are_above_the_papers_and_ratios(kind):
    found = lines(MEASURED, **{"published" if kind == "paper" else "closed_form": [PUBLISHED]})
    assert ["d", "IP", "CA", "GM"] in found
    at = found.index(["4", "measured", "2.500", "1.000", "3.000"])
    assert found[at + 1] == [*kind.split(), "2.00", "1.00", "–"]
    assert found[at + 2] == ["ratio", "1.250", "1.000", "–"]
    assert ["8", "measured", "5.000", "1.000", "7.000"] in found
    text = " ".join(word for line in found for word in line)
    assert "largest gap of CA: 1.2 %" in text
    assert f"–: the {kind} has no such number." in text


@pytest.mark.parametrize(
    ("changes", "papers", "notes"),
    [
        ({"axes": {"d": [8], "mechanism": ["IP", "CA"]}, "values": [[4.0, 1.0]]}, 1, 1),
        ({"values": [[None, 1.0], [4.0, None]]}, 2, 1),
        ({"axes": {"d": [64], "mechanism": ["IP"]}, "values": [[2.0]]}, 0, 0),
        ({"axes": {"mechanism": ["IP"]}, "values": [2.0]}, 0, 0),
    ],
)
def test_numbers_that_the_paper_lacks_are_dashes_with_a_reason(changes, papers, notes):
    (found,) = made(MEASURED, published=[{**PUBLISHED, **changes}])
    assert ("4", "measured") in found.shown.index
    assert found.shown.index.get_level_values(-1).tolist().count("paper") == papers
    assert found.notes.count("–: the paper has no such number.") == notes
    if not notes:
        assert re.match("A paper; the (paper has no numbers|table does not say)", found.notes[0])
        assert found.entries["published"].isna().all()


@pytest.mark.parametrize("state", [one for one in Status if one is not Status.OK])
def test_other_states_are_words(state):
    data = dataset(
        {"d": [4, 8], "mechanism": ["CA", "IP"]},
        {"variance_ratio": [[1.0, 123.0], [1.0, np.nan]], "gap": 0.0},
        [[OK, int(state)], [OK, OK]],
    )
    published = {**PUBLISHED, "axes": {"mechanism": ["CA", "IP"]}, "values": [1.0, 2.0]}
    text = rendered(made(data, published=[published]))
    assert state.label.replace("_", " ") in text
    assert "none" in text
    assert "123" not in text
    assert "nan" not in text


@pytest.mark.parametrize(
    ("names", "measured", "published", "factor"),
    [
        ("CA IP HM GM", [1, 11.45, 2.29, 7.0], [1, 10.01, 2.0, 9.0], "(1.144): the paper's CA"),
        ("CA IP HM GM", [1, 11.45, 3.0, 7.0], [1, 10.01, 2.0, 9.0], ""),
        ("CA IP HM GM", [1, 10.01, 2.0, 9.0], [1, 10.01, 2.0, 9.0], ""),
        ("CA IP HM GM", [1, 9.0, 1.8, 8.1], [1, 10.01, 2.0, 9.0], ""),
        # the paper's SM-II stopped 10 % above the optimum, so its ratios are lower by that factor
        ("optimal SM-II CA IP", [1, 1, 2.2, 5.5], [None, 1, 2, 5.01], "(1.098): the paper's SM"),
        # a table without the paper's reference
        ("optimal HM CA IP", [1, 3.3, 2.2, 5.5], [None, 3, 2, 5.01], "(1.098): the paper's refer"),
    ],
)
def test_a_factor_that_a_row_shares_is_named_as_the_papers_gap(names, measured, published, factor):
    data = dataset({"mechanism": names.split()}, {"variance_ratio": measured, "gap": 0.0})
    stated = {**PUBLISHED, "axes": {"mechanism": names.split()}, "values": published}
    blocks = [{"workload": {"name": "prefix", "d": 4}, "mechanism": names.split()}]
    (found,) = made(data, published=[stated], blocks=blocks, reference=names.split()[0])
    assert factor in found.notes[0]
    assert bool(factor) == ("stopped that far above" in found.notes[0])


def test_tables_hold_for_the_coordinates_they_name():
    data = dataset(
        {"targets": ["uniform", "random"], "d": [4, 8], "mechanism": ["IP", "CA"]},
        {"variance_ratio": np.arange(8.0).reshape(2, 2, 2) + 10, "gap": 0.0},
    )
    found = lines(data, published=[{**PUBLISHED, "at": {"targets": "random"}}])
    assert ["4", "measured", "14.00", "15.00"] in found
    without = data.assign(status=data["status"].where(data["targets"] == "uniform", ABSENT))
    for measured, targets in ((data, "important"), (without, "random")):
        (other,) = made(measured, published=[{**PUBLISHED, "at": {"targets": targets}}])
        assert "paper" not in rendered([other]), "the measured numbers alone"


def test_groups_of_a_tree_have_their_own_tables():
    tree = xr.DataTree.from_dict({"prefix": MEASURED, "range": MEASURED})
    blocks = [
        {"workload": {"name": name, "d": [4, 8]}, "mechanism": ["IP", "CA"]}
        for name in ("prefix", "range")
    ]
    found = made(tree, published=[{**PUBLISHED, "group": "prefix"}], blocks=blocks)
    assert [one.title.partition(":")[0] for one in found] == ["Table 1", "range"]

    (only,) = made(tree, Wanted(group="range"), blocks=blocks)
    assert only.title.startswith("range")
    with pytest.raises(SweepError, match="no group 'rangs'; did you mean 'range'"):
        made(tree, Wanted(group="rangs"), blocks=blocks)


def test_a_title_names_the_reference_mechanism_whatever_cells_are_chosen():
    data = MEASURED.copy(deep=True).assign_attrs(reference="CA")
    data["variance_ratio"].attrs["long_name"] = "ratio at the cost of the reference mechanism"
    for wanted in (Wanted(), Wanted("variance_ratio", where="d > 4")):
        (found,) = tables.make_number_tables(data, compared(show="variance_ratio"), wanted)
        assert found.title == "results: ratio at the cost of CA"


def test_a_note_of_several_tables_in_a_row_is_printed_once():
    others = MEASURED.assign_attrs(neighbours="any two")
    tables = [make_table(data, Wanted()) for data in (others, others, MEASURED, others)]
    assert rendered(tables[:2]).count("Neighbours: any two.") == 1
    assert rendered(tables).count("Neighbours: any two.") == 2


def test_without_published_numbers_every_mechanism_has_a_line():
    data = dataset(
        {"mechanism": ["CA", "geometric", "GD"]},
        {"squared_privacy_cost": [2.0, np.nan, np.nan], "gap": [0.5, 2.0, np.nan]},
        [OK, OK, int(Status.TIMEOUT)],
    ).assign_coords(delta=[1e-5])
    data["epsilon_at_targets"] = (("mechanism", "delta"), [[6.5], [10.0], [np.nan]])
    found = lines(data)
    assert ["CA", "2.000", "50", "%", "6.500"] in found
    assert ["geometric", "none", "200", "%", "10.00"] in found
    assert ["GD", *["timeout"] * 3] in found
    shown = rendered(made(data, show="gap"))
    assert "50 %" in shown
    assert "6.500" not in shown


def test_claims_show_the_range_that_was_measured_and_the_verdict():
    claims = [
        {"variable": "variance_ratio", "at": {"mechanism": "IP"}, "least": 2, "text": "IP is bad"},
        {"variable": "gap", "text": "gap is small"},
    ]
    (*_, found) = made(MEASURED, claims=claims)
    assert found.title == "x: what the text says"
    assert found.shown.loc["IP is bad"].tolist() == ["≥ 2", "2.5–5", "holds"]
    assert found.shown.loc["gap is small"].tolist()[:2] == ["no range", "none"]
    assert formats.to_csv([found]).splitlines()[1].startswith("x: what the text says,IP is bad,,")


@pytest.mark.parametrize("width", [60, 100])
def test_a_screen_shows_all_columns_and_cuts_no_number(width):
    shipped = load_experiment("vldb-table5")
    names = [mechanism.shown for mechanism in shipped.blocks[0].mechanism]
    data = dataset(
        {"d": [64, 1024], "replicate": [0, 1, 2], "mechanism": names},
        {"variance_ratio": 109.3421, "gap": 0.00071},
    )
    text = rendered(make_tables(data, shipped, Wanted(spread="none"))[:1], width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert len(re.findall(r"109\.3\b", text)) == 2 * len(names)


@pytest.mark.parametrize("width", [40, 60, 80, 160])
@pytest.mark.parametrize("spread", ["none", "error", "range"])
def test_a_screen_cuts_no_label_and_no_spread(width, spread):
    long = "sqrt-prefix (power=0.25, columns=all of them)"
    data = dataset(
        {
            **{"d": [8, 16], "targets": ["uniform", "important"], "replicate": [0, 1, 2]},
            "mechanism": ["IP", long, "optimal"],
        },
        {
            "squared_privacy_cost": np.array([2.0, 2.3, 2.9])[:, None],
            "variance_ratio": 1.5,
            "gap": 0.3,
        },
    ).assign_coords(delta=[1e-9])
    data["epsilon_at_targets"] = data["variance_ratio"].expand_dims(delta=data["delta"])
    for wanted in (Wanted(spread=spread), Wanted("squared_privacy_cost", spread=spread)):
        (found,) = make_tables(data, compared(), wanted)
        grids = formats.make_grids(found, width)
        assert [letters(grid, width) for grid in grids] == [letters(grid, 10_000) for grid in grids]
        numbers = sum(len(grid.columns) - found.shown.index.nlevels for grid in grids)
        assert numbers == found.shown.shape[1]


def letters(grid, width):
    """The characters of a grid on a screen, sorted; no line is too long."""
    shown = io.StringIO()
    Console(width=width, file=shown).print(grid)
    assert max(map(len, shown.getvalue().splitlines())) <= width
    return sorted("".join(shown.getvalue().replace("─", "").split()))


def test_lost_workers_are_reported_once_and_labels_are_no_emoji():
    console = Console(file=io.StringIO(), width=100)
    with ProgressBar(console) as bar:
        for _ in range(50):
            bar(events.TaskRetried(1))
        bar(events.RunEnded({"ok": 50}, 1.0, interrupted=False))
    assert console.file.getvalue() == "workers were lost; cells sent again: 50\n"
    shown = io.StringIO()
    Terminal(file=shown, width=80).print(Table("a long column", title="a:b: c"))
    assert "a:b: c" in shown.getvalue()


def test_a_frame_has_a_row_for_every_cell_and_a_column_for_every_budget():
    data = dataset(
        {"d": [4, 8], "mechanism": ["CA", "IP"]},
        {"gap": [[0.0, 1.0], [2.0, np.nan]]},
        [[OK, OK], [FAILED, ABSENT]],
    ).assign_coords(delta=[1.0000001, 1.0000002])
    data["epsilon_at_targets"] = (("d", "mechanism", "delta"), np.arange(8.0).reshape(2, 2, 2))
    frame = sweep.to_frame(xr.DataTree.from_dict({"one": data, "two": data.isel(d=[0])}))
    assert frame.columns[:3].tolist() == ["group", "d", "mechanism"]
    assert frame["status"].tolist() == ["ok", "ok", "failed", "ok", "ok"]
    assert frame["group"].tolist() == ["one"] * 3 + ["two"] * 2
    assert frame["epsilon_at_targets[delta=1.0000002]"].tolist() == [1, 3, 5, 1, 3]


@pytest.mark.parametrize(
    ("spread", "texts"),
    [
        ("error", ["4.000 ± 1.155", "8.500 ± 0.500 (2/3)"]),  # 2, 4, 6: 2 / sqrt(3)
        ("range", ["4.000 [2.000, 6.000]", "8.500 [8.000, 9.000] (2/3)"]),
        ("none", ["4.000", "8.500 (2/3)"]),
    ],
)
def test_means_come_with_their_spread(spread, texts):
    found = make_table(REPLICATED, Wanted(spread=spread))
    assert found.shown["IP"].tolist() == texts
    assert found.shown["CA"].tolist() == ["1.000", "1.000"]
    assert any(note.startswith("Means") and "over 3 replicates." in note for note in found.notes)
    assert any(note.startswith("(k/n)") for note in found.notes)
    (gaps,) = made(REPLICATED, Wanted(value="gap", spread=spread))
    assert gaps.notes[0] == "Means over 3 replicates.", "gaps are shown without a spread"
    assert gaps.shown["CA"].tolist() == ["25 %", "25 %"]
    entry = found.entries.set_index(["d", "mechanism"]).loc[(8, "IP")]
    assert (entry["minimum"], entry["maximum"], entry["ok"], entry["cells"]) == (8, 9, 2, 3)


def test_means_of_some_replicates_say_so_and_no_error_is_zero():
    close = REPLICATED.assign(variance_ratio=1 + REPLICATED["variance_ratio"] * 1e-5)
    assert make_table(close, Wanted()).shown.loc["4", "IP"] == "1.000 ± <0.001"
    states = np.where(np.arange(3)[:, None, None] * np.array([[0], [1]]) > 0, ABSENT, OK)
    coords = {"replicate": [0, 1, 2], "d": [4, 8], "mechanism": ["CA"]}
    found = make_table(dataset(coords, {"variance_ratio": 1.0}, states), Wanted(spread="none"))
    assert "Means over 1 to 3 replicates." in found.notes
    lacking = REPLICATED["variance_ratio"].where(REPLICATED["variance_ratio"] != 4)
    found = make_table(REPLICATED.assign(variance_ratio=lacking), Wanted(spread="none"))
    assert found.shown.loc["4", "IP"] == "4.000 (2/3)", "its reference has failed"


def test_rows_columns_and_conditions_can_be_chosen():
    turned = make_table(REPLICATED, Wanted(rows=("mechanism",), columns="d", where="d > 4"))
    assert turned.shown["d = 8"].tolist() == ["1.000", "8.500 ± 0.500 (2/3)"]
    several = dataset(
        {"k": [1, 2], "d": [4, 8], "mechanism": ["CA", "IP"]},
        {"variance_ratio": np.arange(8.0).reshape(2, 2, 2)},
        [[[ABSENT, ABSENT], [ABSENT, OK]], [[OK, OK], [OK, OK]]],
    )
    by_d = make_table(several, Wanted(rows=("d",)))
    assert by_d.shown.index.tolist() == [("4", "2"), ("8", "1"), ("8", "2")], "in the grid's order"
    assert by_d.shown.loc[("8", "2"), "IP"] == "7.000", "what varies is never averaged in silence"
    assert make_table(several, Wanted(columns="d")).shown.columns.tolist() == ["d = 4", "d = 8"]
    zipped = dataset(
        {"d": [4, 8, 16], "mechanism": ["CA"]}, {"variance_ratio": [[1.0], [2.0], [9.0]]}
    ).assign_coords(size=("d", ["small", "small", "large"]), half=("d", [2, 4, 8]))
    by_size = make_table(zipped, Wanted(rows=("size",))).shown
    assert by_size.index.tolist() == [("small", "4"), ("small", "8"), ("large", "16")]
    assert make_table(zipped, Wanted(rows=("half",))).shown.index.tolist() == ["2", "4", "8"]


@pytest.mark.parametrize("named", ["half", "d"])
def test_published_numbers_are_found_by_coordinates_that_are_no_rows(named):
    published = {**PUBLISHED, "axes": {named: [2], "mechanism": ["IP", "CA"]}}
    if named == "half":
        data = MEASURED.assign_coords(half=("d", [2, 4]))
    else:
        data = MEASURED.isel(d=0).assign_coords(d=2)
    (found,) = made(data, published=[{**published, "values": [[2.0, 1.0]]}])
    known = found.entries.dropna(subset="published")
    assert known[["mechanism", "ratio"]].values.tolist() == [["IP", 1.25], ["CA", 1.0]]


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"value": "varience_ratio"}, "did you mean 'variance_ratio'"),
        ({"value": "status"}, "no numeric variable 'status'"),
        ({"rows": ("mechanisms",), "columns": "d"}, "did you mean 'mechanism'"),
        ({"where": "dd > 3"}, "uses 'dd'"),
        ({"where": "d > 8"}, "holds for no cell"),
        ({"rows": ("mechanism",)}, "columns mechanism have a coordinate twice; name"),
    ],
)
def test_what_does_not_exist_is_refused(wanted, said):
    with pytest.raises(SweepError, match=re.escape(said)):
        made(REPLICATED, Wanted(**{"value": "variance_ratio", **wanted}))


def test_every_format_has_the_same_numbers_and_the_neighbours():
    tiny = 1.2345678901234567e-12
    data, asked = described(MEASURED.assign_attrs(neighbours="any two"), published=[PUBLISHED])
    data["variance_ratio"] = data["variance_ratio"].where(data["variance_ratio"] != 7, tiny)
    found = make_tables(data, asked)
    for form in ("markdown", "latex", "html"):
        text = formats.RENDERERS[form](found)
        parts = ("2.500", "1.250", "Table 1", "Neighbours: any two.")
        assert [one for one in parts if one not in text] == [], form
    rows = list(csv.DictReader(io.StringIO(formats.to_csv(found))))
    entries = json.loads(formats.to_json(found))["tables"][0]["entries"]
    for read in (rows, entries):
        (one,) = [e for e in read if (str(e["d"]), e["mechanism"]) == ("8", "GM")]
        assert float(one["mean"]) == tiny
        assert not one["published"]
        (first,) = [e for e in read if (str(e["d"]), e["mechanism"]) == ("4", "IP")]
        assert (float(first["published"]), float(first["ratio"])) == (2.0, 1.25)


def test_conditions_rows_and_columns_keep_the_papers_numbers():
    data, asked = described(MEASURED, published=[PUBLISHED])
    (chosen,) = tables.make_number_tables(data, asked, Wanted("variance_ratio", where="d > 4"))
    assert chosen.shown.loc[("8", "paper"), "IP"] == "4.00"
    assert ("4", "paper") not in chosen.shown.index
    (turned,) = tables.make_number_tables(data, asked, Wanted("variance_ratio", columns="d"))
    assert turned.shown.loc[("IP", "paper")].tolist() == ["2.00", "4.00"]
    assert turned.shown.loc[("GM", "measured")].tolist() == ["3.000", "7.000"]
    (other,) = tables.make_number_tables(data, asked, Wanted("gap"))
    assert "paper" not in other.shown.index.get_level_values(-1)


def hostile():
    label = "<script>alert(1)</script> | 100% $_{~^\\ & #"
    data = dataset({"mechanism": ["CA", label]}, {"variance_ratio": [1.0, 2.0]})
    return [make_table(data, Wanted(), group=label)]


def test_texts_of_users_are_escaped():
    assert "<script" not in formats.to_markdown(hostile())
    escaped = r"$\_\{\textasciitilde{}\textasciicircum{}\textbackslash{} \& \#".replace("$", r"\$")
    assert escaped in formats.to_latex(hostile())


def test_a_latex_table_spans_both_columns_of_a_page_only_if_it_is_wider_than_one():
    names = [f"M{number}" for number in range(9)]
    data = dataset({"d": [4, 8], "mechanism": names}, {"variance_ratio": 12.34, "gap": 0.2})
    narrow, wide = data.isel(mechanism=slice(5)), data
    labelled = narrow.assign_coords(mechanism=[f"mechanism {number}" for number in range(5)])
    for measured, environment in ((narrow, "table"), (wide, "table*"), (labelled, "table*")):
        text = formats.to_latex([make_table(measured, Wanted(spread="none"))])
        assert f"\\begin{{{environment}}}[htbp]" in text
        assert f"\\end{{{environment}}}" in text


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="pdflatex is not installed")
def test_latex_compiles_as_it_is_and_within_a_document(tmp_path):
    claim = {"variable": "gap", "text": "a claim of more than sixty characters " * 3}
    found = made(REPLICATED, published=[PUBLISHED], claims=[claim])
    (tmp_path / "table.tex").write_text(formats.to_latex([*found, *hostile()]))
    (tmp_path / "paper.tex").write_text(
        "\\documentclass{article}\\usepackage[T1]{fontenc}\\usepackage{array,booktabs,graphicx}\n"
        "\\begin{document}before\\input{table}after\\end{document}\n"
    )
    for name in ("table", "paper"):
        options = ("-interaction=nonstopmode", "-halt-on-error")
        ended = ran("pdflatex", *options, f"{name}.tex", cwd=tmp_path)
        assert ended.returncode == 0, ended.stdout[-2000:]
        assert "Overfull" not in ended.stdout


def test_the_command_line_shows_any_variable_in_any_format(swept, tmp_path, command, refusal):
    data = swept(tmp_path / "store")
    store = str(tmp_path / "store")
    assert sweep.to_frame(store).equals(sweep.to_frame(data))
    rows = csv.DictReader(io.StringIO(command("show", store, "--format", "csv").stdout))
    assert {(row["d"], row["mechanism"]) for row in rows} >= {("2", "IP"), ("4", "GM")}
    shown = command("show", store, "--value", "squared_privacy_cost", "--rows", "d")
    assert shown.exit_code == 0
    assert ["4", "4.000", "4.000"] in [line.split() for line in shown.stdout.splitlines()]
    assert "is not one of 'text', 'markdown'" in refusal("show", store, "--format", "pdf")
    assert "has no claims; drop --claims" in refusal("show", store, "--claims")
    state = json.loads(command("status", store, "--json").stdout)
    assert (state["statuses"], state["running"]) == ({"ok": 4}, None)


def test_every_text_that_ships_can_be_set_by_latex():
    for name in list_experiments():
        shipped = load_experiment(name)
        parts = [shipped.title, *(f"{c.text} {c.source} {c.unjudged}" for c in shipped.claims)]
        compared = (*shipped.published, *shipped.closed_form)
        parts += [f"{one.title} {one.source}" for one in compared]
        odd = {c for part in parts for c in formats.escape_latex(part) if ord(c) > 0xFF} - {*"–…"}
        assert not odd, name
