"""Tables: what stands in them, next to what, and that they fit a screen."""

import io
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import xarray as xr
from rich.console import Console, Group
from rich.table import Table
from written import dataset

from sweep import events
from sweep.dataset.reading import Results
from sweep.experiment.loading import load_experiment, parse_experiment
from sweep.experiment.schema import Experiment
from sweep.report.consoles import Terminal
from sweep.report.formats import laid_out
from sweep.report.messages import ProgressBar
from sweep.report.tables import Wanted, all_tables
from sweep.store.records import Status

OK = int(Status.OK)


def experiment(**content: Any) -> Experiment:
    blocks = [{"workload": {"name": "prefix", "d": [4, 8]}, "mechanism": ["IP", "CA"]}]
    return parse_experiment(json.dumps({"blocks": blocks, "reference": "CA", **content}), "x.yaml")


def tables(data: Results, asked: Experiment) -> list[Group]:
    return [laid_out(table) for table in all_tables(data, asked, Wanted(spread="none"))]


def rendered(made: Sequence[Group], width: int = 100) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    for table in made:
        console.print(table)
    return console.export_text()


def dashes(asked: Experiment) -> list[str]:
    """The notes of the first table on numbers that are not there."""
    return [note for note in all_tables(MEASURED, asked)[0].notes if note.startswith("–")]


def lines(made: Sequence[Group]) -> list[list[str]]:
    return [line.split() for line in rendered(made).splitlines() if line.strip()]


PUBLISHED = {
    "variable": "variance_ratio",
    "title": "Table 1",
    "source": "A paper",
    "axes": {"d": [4, 8], "mechanism": ["IP", "CA"]},
    "values": [[2.0, 1.0], [4.0, 1.0]],
}
MEASURED = dataset(
    {"d": [4, 8], "mechanism": ["CA", "IP", "GM"]},
    {"variance_ratio": [[1, 2.5, 3], [1, 5, 7]], "gap": 0.0123},
)


def test_measured_paper_and_ratio_stand_below_each_other() -> None:
    found = lines(tables(MEASURED, experiment(published=[PUBLISHED])))
    assert ["d", "IP", "CA", "GM"] in found
    at = found.index(["4", "measured", "2.500", "1.000", "3.000"])
    assert found[at + 1] == ["paper", "2.00", "1.00", "–"]
    assert found[at + 2] == ["ratio", "1.250", "1.000", "–"]
    assert ["8", "measured", "5.000", "1.000", "7.000"] in found
    text = " ".join(rendered(tables(MEASURED, experiment(published=[PUBLISHED]))).split())
    assert "largest gap of CA: 1.2 %" in text


def test_numbers_of_a_formula_are_not_called_the_papers() -> None:
    found = lines(tables(MEASURED, experiment(closed_form=[PUBLISHED])))
    assert ["closed", "form", "2.00", "1.00", "–"] in found
    assert not any(line[0] == "paper" for line in found)
    assert dashes(experiment(closed_form=[PUBLISHED])) == ["– under GM: not in the closed form."]


def test_rows_that_the_paper_lacks_are_shown_alone() -> None:
    only = {**PUBLISHED, "axes": {"d": [8], "mechanism": ["IP", "CA"]}, "values": [[4.0, 1.0]]}
    found = lines(tables(MEASURED, experiment(published=[only])))
    assert sum(line[0] == "paper" for line in found) == 1
    assert ["4", "measured", "2.500", "1.000", "3.000"] in found
    assert dashes(experiment(published=[only])) == ["– under GM: not in the paper."]


def test_numbers_the_paper_does_not_print_are_dashes() -> None:
    holes = {**PUBLISHED, "values": [[None, 1.0], [4.0, None]]}
    found = lines(tables(MEASURED, experiment(published=[holes])))
    assert ["paper", "–", "1.00", "–"] in found
    assert ["paper", "4.00", "–", "–"] in found
    assert dashes(experiment(published=[holes])) == [
        "–: the paper has no such number.",
        "– under GM: not in the paper.",
    ]


@pytest.mark.parametrize(
    ("state", "word"),
    [
        (Status.FAILED, "failed"),
        (Status.TIMEOUT, "timeout"),
        (Status.LOST, "lost"),
        (Status.PENDING, "pending"),
        (Status.NOT_APPLICABLE, "not applicable"),
        (Status.ABSENT, "absent"),
    ],
)
def test_other_states_are_words(state: Status, word: str) -> None:
    data = dataset(
        {"d": [4, 8], "mechanism": ["CA", "IP"]},
        {"variance_ratio": [[1.0, 123.0], [1.0, 2.0]], "gap": 0.0},
        [[OK, int(state)], [OK, OK]],
    )
    table = {**PUBLISHED, "axes": {"mechanism": ["CA", "IP"]}, "values": [1.0, 2.0]}
    text = rendered(tables(data, experiment(published=[table])))
    assert word in text
    assert "123" not in text


def test_a_factor_that_a_row_shares_is_named_as_the_papers_gap() -> None:
    def note(values: Sequence[float], published: Sequence[float]) -> str:
        names = ["CA", "IP", "HM", "GM"]
        data = dataset({"mechanism": names}, {"variance_ratio": values, "gap": 0.0})
        table = {**PUBLISHED, "axes": {"mechanism": names}, "values": list(published)}
        return " ".join(rendered(tables(data, experiment(published=[table]))).split())

    shared = note([1.0, 11.44, 2.29, 7.0], [1.0, 10.0, 2.0, 9.0])
    assert "one factor (1.14" in shared
    assert "one factor" not in note([1.0, 11.44, 3.0, 7.0], [1.0, 10.0, 2.0, 9.0])
    assert "one factor" not in note([1.0, 10.01, 2.002, 9.0], [1.0, 10.0, 2.0, 9.0])
    assert "one factor" not in note([1.0, 9.0, 1.8, 8.1], [1.0, 10.0, 2.0, 9.0])


def test_the_factor_is_between_the_papers_reference_and_ours() -> None:
    names = ["SM-II", "CA", "IP", "optimal"]
    # the paper's SM-II stopped 10 % above the optimum: its ratios are lower by that factor
    data = dataset({"mechanism": names}, {"variance_ratio": [1.0004, 2.2, 5.5, 1.0], "gap": 0.0})
    table = {
        **PUBLISHED,
        "axes": {"mechanism": ["SM-II", "CA", "IP"]},
        "values": [1.0, 2.0, 5.0],
    }
    blocks = [{"workload": {"name": "prefix", "d": 4}, "mechanism": names}]
    asked = experiment(published=[table], blocks=blocks, reference="optimal")
    text = " ".join(rendered(tables(data, asked)).split())
    assert "one factor (1.100)" in text
    assert "the paper's SM-II stopped" in text


def test_tables_hold_for_the_coordinates_they_name() -> None:
    data = dataset(
        {"targets": ["uniform", "random"], "d": [4, 8], "mechanism": ["IP", "CA"]},
        {"variance_ratio": np.arange(8.0).reshape(2, 2, 2) + 10, "gap": 0.0},
    )
    at = {**PUBLISHED, "at": {"targets": "random"}}
    found = lines(tables(data, experiment(published=[at])))
    assert ["4", "measured", "14.00", "15.00"] in found
    gone = {**PUBLISHED, "at": {"targets": "important"}}
    (other,) = tables(data, experiment(published=[gone]))
    assert "paper" not in rendered([other]), "the measured numbers alone"


def test_groups_of_a_tree_have_their_own_tables() -> None:
    published = [{**PUBLISHED, "group": "prefix"}]
    blocks = [
        {"workload": {"name": "prefix", "d": [4, 8]}, "mechanism": ["IP", "CA"]},
        {"workload": {"name": "range", "d": [4, 8]}, "mechanism": ["IP", "CA"]},
    ]
    tree = xr.DataTree.from_dict({"prefix": MEASURED, "range": MEASURED})
    text = rendered(tables(tree, experiment(published=published, blocks=blocks)))
    assert text.count("Table 1") == 1
    assert "range" in text


def test_without_published_numbers_every_mechanism_has_a_line() -> None:
    data = dataset(
        {"mechanism": ["CA", "IP"]},
        {"squared_privacy_cost": [2.0, 4.0], "variance_ratio": [1.0, 2.0], "gap": [0.5, 2.0]},
    ).assign_coords(delta=[1e-5])
    data["epsilon_at_targets"] = (("mechanism", "delta"), [[6.5], [10.0]])
    found = lines(tables(data, experiment()))
    assert ["CA", "2.000", "1.000", "50", "%", "6.500"] in found
    assert ["IP", "4.000", "2.000", "200", "%", "10.00"] in found


def test_numbers_that_a_mechanism_does_not_have_are_none() -> None:
    data = dataset(
        {"mechanism": ["CA", "geometric"]},
        {"squared_privacy_cost": [2.0, np.nan], "utility": [np.nan, 0.5]},
    )
    found = lines(tables(data, experiment()))
    assert ["CA", "2.000", "none"] in found
    assert ["geometric", "none", "0.5000"] in found


def test_many_lines_become_one_number_of_every_mechanism() -> None:
    sizes = list(range(1, 41))
    data = dataset({"d": sizes, "mechanism": ["CA", "IP"]}, {"variance_ratio": [1.0, 2.0]})
    found = lines(tables(data, experiment()))
    assert ["d", "CA", "IP"] in found
    assert ["40", "1.000", "2.000"] in found


def test_the_gap_of_an_unfinished_cell_is_its_state() -> None:
    data = dataset(
        {"mechanism": ["CA", "GD"]},
        {"squared_privacy_cost": [2.0, np.nan], "gap": [0.5, np.nan]},
        [OK, int(Status.TIMEOUT)],
    )
    (line,) = [line for line in lines(tables(data, experiment())) if line[0] == "GD"]
    assert line == ["GD", "timeout", "timeout"]


def test_an_experiment_chooses_what_is_shown() -> None:
    data = dataset(
        {"mechanism": ["CA", "IP"]}, {"squared_privacy_cost": 2.0, "fisher_information": [3.0, 4.0]}
    )
    text = rendered(tables(data, experiment(show="fisher_information")))
    assert "3.000" in text
    assert "2.000" not in text


def test_claims_show_the_range_that_was_measured_and_the_verdict() -> None:
    claims = [
        {"variable": "variance_ratio", "at": {"mechanism": "IP"}, "least": 2, "text": "IP is bad"},
        {"variable": "gap", "text": "gap is small"},
    ]
    text = rendered(tables(MEASURED, experiment(claims=claims)))
    (line,) = [line.split() for line in text.splitlines() if "IP is bad" in line]
    assert line == ["IP", "is", "bad", ">=", "2", "2.5", "to", "5", "holds"]
    (line,) = [line.split() for line in text.splitlines() if "gap is small" in line]
    assert line[:7] == ["gap", "is", "small", "no", "range", "none", "cannot"]


def test_an_unfinished_dataset_has_tables_too() -> None:
    data = dataset(
        {"d": [4, 8], "mechanism": ["IP", "CA"]},
        {"variance_ratio": np.nan, "gap": np.nan},
        int(Status.PENDING),
    )
    text = rendered(tables(data, experiment(published=[PUBLISHED])))
    assert text.count("pending") == 4
    assert "nan" not in text


def test_a_narrow_screen_shows_all_columns_and_no_number_is_cut() -> None:
    names = ["a mechanism", *(f"wCA-{'I' * at}" for at in range(1, 12))]
    data = dataset({"d": [4, 8], "mechanism": names}, {"variance_ratio": 12.34, "gap": 0.0})
    (table,) = [laid_out(one, 60) for one in all_tables(data, experiment())]
    text = rendered([table], 60)
    assert "…" not in text
    assert all(name in text for name in names[1:8])
    assert text.count("12.34") == 2 * len(names)


def test_the_widest_shipped_table_fits_100_columns() -> None:
    shipped = load_experiment("vldb-table5")
    mechanisms = [mechanism.axis_label for mechanism in shipped.blocks[0].mechanism]
    data = dataset(
        {"d": [64, 1024], "replicate": [0, 1, 2], "mechanism": mechanisms},
        {"variance_ratio": 109.3421, "gap": 0.00071},
    )
    text = rendered(tables(data, shipped))
    assert max(map(len, text.splitlines())) <= 100
    assert "109.3" in text
    assert "…" not in text


def test_lost_workers_are_told_now_and_then_not_cell_by_cell():
    console = Console(file=io.StringIO(), width=100)
    with ProgressBar(console) as bar:
        for _ in range(50):
            bar(events.TaskRetried(1))
        bar(events.RunEnded({"ok": 50}, 1.0, interrupted=False))
    assert console.file.getvalue() == (
        "workers were lost: retrying 1 cell\nworkers were lost: retrying 49 cells\n"
    )


def test_a_table_without_a_number_beside_the_measured_ones_says_so() -> None:
    table = {"variable": "variance_ratio", "axes": {"d": [64], "mechanism": ["IP"]}}
    data = dataset({"d": [4, 8], "mechanism": ["IP"]}, {"variance_ratio": 1.0, "gap": 0.0})
    found, *_ = all_tables(data, experiment(published=[{**table, "values": [[2.0]]}]))
    assert found.notes[0].startswith("The paper has no numbers for these settings")


def test_a_table_that_leaves_an_axis_open_has_no_number_beside_any_label() -> None:
    table = {"variable": "variance_ratio", "axes": {"mechanism": ["IP"]}, "values": [2.0]}
    data = dataset({"d": [4, 8], "mechanism": ["IP"]}, {"variance_ratio": 1.0, "gap": 0.0})
    found, *_ = all_tables(data, experiment(published=[table]))
    assert found.entries["published"].isna().all()
    assert found.notes[0].startswith("The table does not say at which d its numbers are")


def test_labels_are_no_emoji() -> None:
    shown = io.StringIO()
    Terminal(file=shown, width=80).print(Table("a long column", title="a:b: c"))
    assert "a:b: c" in shown.getvalue()
