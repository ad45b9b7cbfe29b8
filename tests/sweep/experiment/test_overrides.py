"""Changes from the command line: what they reach, and the mistakes in them."""

import numpy as np
import pytest

from solvers.problem.neighbours import ADD_REMOVE
from sweep.errors import ExperimentError
from sweep.experiment.loading import load_experiment, parse_experiment
from sweep.grid.expansion import expand

GOOD = """\
name: small            # line 1
reference: IP
blocks:
  - workload: {name: prefix, d: [4, 8]}
    targets: uniform
    mechanism: [IP, CA]
"""


def changed(old, new):
    assert old in GOOD
    return GOOD.replace(old, new)


def axis(experiment, name):
    (grid,) = expand(experiment)
    return next(tuple(axis.values) for axis in grid.axes if axis.name == name)


OF_ONE_NAME = changed("CA]", "HM, {name: HM, branching: sqrt, label: HM (sqrt)}]")

MARGINALS = GOOD.replace("{name: prefix, d: [4, 8]}", "{name: marginals, orders: [1]}")


@pytest.mark.parametrize(
    ("text", "settings", "name", "labels"),
    [
        (GOOD, ["d=16,32"], "d", (16, 32)),
        (GOOD, "d=16", "d", (16,)),
        (GOOD, {"d": 2 ** np.arange(2, 5)}, "d", (4, 8, 16)),
        (GOOD, ["replicates=3"], "replicate", (0, 1, 2)),
        (GOOD, ["mechanism=CA,HM"], "mechanism", ("CA", "HM")),
        (OF_ONE_NAME, ["mechanism=HM,HM (sqrt)"], "mechanism", ("HM", "HM (sqrt)")),
        (GOOD, ["targets=uniform,random"], "targets", ("uniform", "random")),
        (MARGINALS, ["orders=[1],[1,2]"], "orders", ("1", "1,2")),
    ],
)
def test_set_changes_an_axis_wherever_it_is_taken(text, settings, name, labels):
    assert axis(parse_experiment(text, "x", settings), name) == labels


def test_set_reaches_what_was_not_written_and_keeps_the_options_that_were():
    text = changed("CA]", "{name: COA, preset: published}]")
    settings = ["value=2.5", "delta=1e-3", "time_limit=7", "mechanism=COA (published)"]
    read = parse_experiment(text, "x", settings)
    (cell, *_) = expand(read)[0].cells
    assert (read.delta, read.time_limit, cell.targets.params["value"]) == ((1e-3,), 7.0, 2.5)
    assert cell.mechanism.params["max_iterations"] == 30


COMPARED = (
    "blocks:\n  - workload: {name: range, d: [4, 8], m: 3}\n    mechanism: [IP, CA]\n"
    "reference: CA\nepsilon: [1, 2]\n"
    "published:\n  - variable: gap\n    axes: {d: [4], mechanism: [IP]}\n    values: [[1]]\n"
    "  - variable: variance_ratio\n    axes: {mechanism: [IP, CA]}\n    values: [7, 1]\n"
    "claims:\n  - {text: it is, variable: gap, most: 1}\n"
    "  - {text: too, variable: variance_ratio_at_budget, over: CA, most: 1}\n"
    "  - {text: also, variable: variance_ratio, at: {d: 8}, most: 1}\n"
)


def test_comparisons_stay_at_the_values_of_the_file_when_settings_change_them():
    settings = ["targets=random", "m=5", "d=4", "seed=7", "neighbours=replace-one", "mechanism=CA"]
    found = parse_experiment(COMPARED, "x", settings)
    wanted = {"targets": "uniform", "m": 3, "neighbours": ADD_REMOVE.title}
    assert found.published[0].at == wanted
    several = {"d": (4, 8), "mechanism": ("IP", "CA")}
    assert found.claims[0].at == {name: (label,) for name, label in wanted.items()} | several
    assert found.claims[2].at["d"] == (8,)
    assert parse_experiment(found.text, "x").published == found.published
    assert not parse_experiment(COMPARED, "x").published[0].at
    # the file does not say whether its second table is about d = 4 or d = 8
    assert [one.variable for one in parse_experiment(COMPARED, "x", ["d=4"]).published] == ["gap"]


def test_claims_stay_about_the_budgets_mechanisms_and_blocks_of_the_file():
    first, second, _ = parse_experiment(COMPARED, "x", ["epsilon=3", "mechanism=GM,CA"]).claims
    assert first.at == {"mechanism": ("IP", "CA")}
    assert second.at == {"epsilon": (1, 2), "mechanism": ("IP", "CA")}
    second = "  - {workload: {name: range, d: 16, m: 3}, mechanism: IP}\n"
    other = "  - {workload: {name: range, d: 5}, mechanism: IP, group: other}\nreference:"
    text = COMPARED.replace("reference:", second + other, 1)
    text = text.replace("text: it is", "text: it is, group: range")
    assert parse_experiment(text, "x", ["d=32"]).claims[0].at == {"d": (4, 8, 16)}
    # labels that a setting has taken away are no mistake
    assert expand(parse_experiment(COMPARED, "x", ["d=16"]))


def test_ratios_to_another_reference_are_compared_with_nothing():
    found = parse_experiment(COMPARED, "x", ["reference=IP"])
    assert [table.variable for table in found.published] == ["gap"]
    assert [claim.text for claim in found.claims] == ["it is", "too"]
    ours = COMPARED.replace("reference: CA\n", "")
    assert len(parse_experiment(ours, "x", ["reference=CA"]).published) == 2


@pytest.mark.parametrize(
    ("setting", "sizes", "counts"), [("m=3", (4, 8), (3, 3)), ("d=4,16", (4, 16), (3, 5))]
)
def test_set_picks_the_rows_of_zipped_axes(setting, sizes, counts):
    text = changed("{name: prefix, d: [4, 8]}", "{name: range, d: [4, 8, 16], m: [3, 3, 5]}")
    (grid,) = expand(parse_experiment(text + "    zip: [[d, m]]\n", "x", [setting]))
    assert grid.axes[0].values == sizes
    assert grid.axes[0].companions == {"m": counts}


def test_the_text_tells_of_what_was_set():
    changed_by_hand = parse_experiment(changed("[4, 8]", "{axis: [16, 32]}"), "x")
    set_ = parse_experiment(GOOD, "x", ["d=16,32"])
    assert set_.digest == changed_by_hand.digest
    assert parse_experiment(set_.text, "x").digest == set_.digest


SETTINGS = """
d | --set d: expected key=value[,value...]
=4 | --set =4: expected key=value[,value...]
d=[4 | --set d=[4: '[4' is not a list of values
e=4 | --set e=4: no block takes 'e'; expected one of: d, delta
replicate=4 | --set replicate=4: no block takes 'replicate'; did you mean 'replicates'?
replicates=1,2 | --set replicates=1,2: expected one value
d=0 | x.yaml, --set d=0, blocks[0].workload.d: workload 'prefix': d is 0
mechanism=CAA | x.yaml, --set mechanism=CAA, blocks[0].mechanism[0].name: no mechanism is called
mechanism=mine | give one of your own in Python, or install it as a plug-in
time_limit=-1 | x.yaml, --set time_limit=-1, time_limit: should be greater than or equal to 0
"""


@pytest.mark.parametrize("mistake", SETTINGS.strip().splitlines())
def test_a_mistake_in_a_setting_names_the_setting(mistake):
    setting, told = (part.strip() for part in mistake.split("|"))
    with pytest.raises(ExperimentError) as raised:
        expand(parse_experiment(GOOD, "x.yaml", [setting]))
    assert told in str(raised.value)


def test_an_axis_that_a_setting_removes_from_under_a_figure_names_the_setting():
    with pytest.raises(ExperimentError, match="no coordinate 'k' after --set targets=random;"):
        expand(load_experiment("vldb-fig3", ["targets=random"]))
