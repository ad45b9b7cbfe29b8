"""Claims: every verdict is reached, by hand-made datasets, and says why."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import written
import xarray as xr

from sweep.errors import ExperimentError
from sweep.experiment.loading import parse_experiment
from sweep.experiment.schema import Claim
from sweep.grid.expansion import expand
from sweep.scorecard.claims import (
    Judgement,
    Verdict,
    judge,
    measured_range,
    of_numbers,
    stated_range,
)
from sweep.scorecard.numbers import Agreement, Compared
from sweep.store.records import Status

OK, FAILED, PENDING = int(Status.OK), int(Status.FAILED), int(Status.PENDING)


def dataset(coords: Mapping[str, Sequence[Any]], values: Any, status: Any = OK) -> xr.Dataset:
    return written.dataset(coords, {"ratio": values}, status)


def verdict(data: xr.Dataset, **claim: Any) -> Judgement:
    return judge(data, Claim(**{"text": "so it is", "variable": "ratio", **claim}))


SIZES = {"d": [4, 8, 16], "mechanism": ["IP", "CA"]}
MEASURED = dataset(SIZES, [[2.0, 1.0], [3.0, 1.5], [5.0, 1.2]])


def test_a_range_holds_at_every_point_that_is_left() -> None:
    found = verdict(MEASURED, at={"mechanism": "IP"}, least=2, most=5)
    assert found == Judgement(Verdict.HOLDS, "", 2.0, 5.0, seeds=1, held=1, points=3)
    assert verdict(MEASURED, at={"mechanism": "CA"}, most=1.5).verdict is Verdict.HOLDS


def test_one_point_outside_makes_it_fail_and_is_named() -> None:
    found = verdict(MEASURED, at={"mechanism": "CA"}, most=1.3)
    assert found.verdict is Verdict.FAILS
    assert found.reason == "not at 1 of 3 points: d = 8"
    both = verdict(MEASURED, most=1.3)
    assert both.reason.startswith("not at 4 of 6 points: IP, d = 4; ")


def test_selected_labels_narrow_a_range() -> None:
    assert verdict(MEASURED, at={"mechanism": "CA", "d": [4, 16]}, most=1.3).verdict is (
        Verdict.HOLDS
    )
    assert verdict(MEASURED, at={"mechanism": "CA", "d": 8}, most=1.3).verdict is Verdict.FAILS


@pytest.mark.parametrize("axis", ["value", "state"])
def test_an_axis_may_have_any_name_that_a_parameter_has(axis: str) -> None:
    data = dataset({axis: [4, 8], "mechanism": ["IP", "CA"]}, [[2.0, 1.0], [3.0, 1.5]])
    assert verdict(data, at={axis: 8}, over="CA", least=2).verdict is Verdict.HOLDS
    assert verdict(data, at={"mechanism": "IP"}, along=axis, most=1).reason == ""
    scalar = data.isel({axis: 0})
    assert verdict(scalar, at={"mechanism": "IP"}, least=2).verdict is Verdict.HOLDS


def test_an_order_is_a_ratio_of_two_mechanisms_at_one_point() -> None:
    above = verdict(MEASURED, at={"mechanism": "IP"}, over="CA", least=1)
    assert (above.verdict, above.least, above.most) == (Verdict.HOLDS, 2.0, pytest.approx(5 / 1.2))
    below = verdict(MEASURED, at={"mechanism": "CA"}, over="IP", most=0.4)
    assert (below.verdict, below.reason) == (
        Verdict.FAILS,
        "not at 2 of 3 points: d = 4; d = 8",
    )


def test_without_a_mechanism_all_others_are_compared() -> None:
    three = dataset({"mechanism": ["IP", "GM", "CA"]}, [3.0, 0.5, 1.0])
    found = verdict(three, over="CA", least=1)
    assert (found.verdict, found.reason) == (Verdict.FAILS, "not at 1 of 2 points: GM")


def test_growth_is_each_number_over_the_one_before() -> None:
    grows = verdict(MEASURED, at={"mechanism": "IP"}, along="d", least=1)
    assert (grows.verdict, grows.least, grows.most) == (
        Verdict.HOLDS,
        pytest.approx(1.5),
        pytest.approx(5 / 3),
    )
    falls = verdict(MEASURED, at={"mechanism": "CA"}, along="d", least=1)
    assert (falls.verdict, falls.reason) == (Verdict.FAILS, "not at 1 of 2 points: d = 16")
    whole = verdict(MEASURED, at={"mechanism": "CA", "d": [4, 16]}, along="d", least=1)
    assert (whole.verdict, whole.most) == (Verdict.HOLDS, pytest.approx(1.2))


def test_generally_asks_for_a_share_of_the_points() -> None:
    assert verdict(MEASURED, most=1.5, share=0.5).verdict is Verdict.HOLDS
    found = verdict(MEASURED, most=1.5, share=0.75)
    assert (found.verdict, found.reason) == (Verdict.FAILS, "at 50 % of 6 points")


def test_a_sentence_that_is_proved_wrong_is_a_slip() -> None:
    assert verdict(MEASURED, most=1, slip="its proof").verdict is Verdict.SLIP
    assert verdict(MEASURED, most=9, slip="its proof").verdict is Verdict.HOLDS


@pytest.mark.parametrize(
    ("agreements", "expected"),
    [
        ([Agreement.AGREES, Agreement.AGREES], Verdict.HOLDS),
        ([Agreement.AGREES, Agreement.FACTOR], Verdict.FACTOR),
        ([Agreement.FACTOR, Agreement.DIFFERS], Verdict.FAILS),
        ([Agreement.AGREES, Agreement.NOT_RUN], Verdict.UNJUDGED),
    ],
)
def test_a_sentence_that_repeats_numbers_has_their_verdict(
    agreements: list[Agreement], expected: Verdict
) -> None:
    claim = Claim(text="it is 1.3", variable="ratio", at={"mechanism": "CA"}, repeats_number=True)
    numbers = [
        Compared({"d": d, "mechanism": "CA"}, 1.3, "1.3", 0.05, agreement, median=1.3)
        for d, agreement in enumerate(agreements)
    ]
    elsewhere = Compared({"d": 0, "mechanism": "IP"}, 9.0, "9", 0.5, Agreement.DIFFERS)
    assert of_numbers(claim, [elsewhere, *numbers]).verdict is expected


def test_growth_of_an_order() -> None:
    found = verdict(MEASURED, at={"mechanism": "IP"}, over="CA", along="d", least=1)
    assert (found.verdict, found.least) == (Verdict.HOLDS, pytest.approx(1.0))


@pytest.mark.parametrize(
    ("ends", "said"),
    [((None, 2.0), "<= 2"), ((1.0, None), ">= 1"), ((1.0, 2.0), "1 to 2"), ((1.0, 1.0), "1")],
)
def test_a_range_in_words(ends: tuple[float | None, float | None], said: str) -> None:
    assert stated_range(*ends) == said


SEEDS = {"replicate": [0, 1, 2], "d": [4, 8], "mechanism": ["CA"]}


def test_a_claim_may_hold_for_some_of_the_seeds() -> None:
    data = dataset(SEEDS, [[[1.1], [1.2]], [[1.1], [1.6]], [[1.3], [1.2]]])
    found = verdict(data, most=1.5)
    assert (found.verdict, found.held, found.seeds) == (Verdict.VARIES, 2, 3)
    assert found.reason == "for 2 of 3 seeds; not at 1 of 2 points: d = 8 (1 of 3 seeds)"
    every = verdict(data, most=1.7)
    assert (every.verdict, every.reason) == (Verdict.HOLDS, "for all 3 seeds")
    none = verdict(data, most=1.05)
    assert (none.verdict, none.reason) == (Verdict.FAILS, "at all 2 points")


def test_seeds_are_counted_at_each_point() -> None:
    absent = int(Status.ABSENT)
    states = [[[OK], [OK]], [[OK], [OK]], [[OK], [absent]]]
    data = dataset(SEEDS, [[[1.1], [1.2]], [[1.6], [1.6]], [[1.3], [0.0]]], states)
    found = verdict(data, most=1.5)
    assert found.reason == (
        "for 2 of 3 seeds; not at 2 of 2 points: d = 4 (1 of 3 seeds); d = 8 (1 of 2 seeds)"
    )


def test_no_seed_may_hold_it_though_no_point_contradicts_it_in_all() -> None:
    data = dataset(SEEDS, [[[1.1], [1.6]], [[1.7], [1.2]], [[1.1], [1.8]]])
    found = verdict(data, most=1.5)
    assert (found.verdict, found.reason) == (
        Verdict.FAILS,
        "not at 2 of 2 points: d = 8 (2 of 3 seeds); d = 4 (1 of 3 seeds)",
    )
    one = verdict(data, at={"d": 8}, most=1.5)
    assert (one.verdict, one.reason) == (Verdict.VARIES, "for 1 of 3 seeds")


@pytest.mark.parametrize(
    ("state", "word"),
    [
        (Status.PENDING, "pending"),
        (Status.FAILED, "failed"),
        (Status.TIMEOUT, "timeout"),
        (Status.LOST, "lost"),
        (Status.NOT_APPLICABLE, "not applicable"),
    ],
)
def test_a_cell_without_a_result_leaves_it_open(state: Status, word: str) -> None:
    states = [[OK, OK], [int(state), OK], [OK, OK]]
    data = dataset(SIZES, [[2.0, 1.0], [3.0, 1.5], [5.0, 1.2]], states)
    found = verdict(data, at={"mechanism": "IP"}, most=9)
    assert found.verdict is Verdict.UNJUDGED
    assert word in found.reason
    assert "d = 8" in found.reason
    assert verdict(data, at={"mechanism": "CA"}, over="IP", most=9).verdict is Verdict.UNJUDGED


def test_what_contradicts_it_needs_no_other_cell() -> None:
    data = dataset(SIZES, [[2.0, 1.0], [3.0, 1.5], [5.0, 1.2]], [[OK, OK], [FAILED, OK], [OK, OK]])
    assert verdict(data, at={"mechanism": "IP"}, most=4).verdict is Verdict.FAILS


def test_a_seed_without_a_result_is_not_one_it_holds_for_alone() -> None:
    states = [[[OK], [OK]], [[OK], [PENDING]], [[OK], [OK]]]
    data = dataset(SEEDS, [[[1.1], [1.9]], [[1.1], [1.0]], [[1.1], [1.2]]], states)
    assert verdict(data, most=1.5).verdict is Verdict.UNJUDGED


def test_points_outside_the_grid_are_not_looked_at() -> None:
    states = [[OK, OK], [int(Status.ABSENT), OK], [OK, OK]]
    data = dataset(SIZES, [[2.0, 1.0], [np.nan, 1.5], [5.0, 1.2]], states)
    assert verdict(data, at={"mechanism": "IP"}, most=5).verdict is Verdict.HOLDS
    assert verdict(data, at={"mechanism": "IP"}, over="CA", most=5).verdict is Verdict.HOLDS


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        ({"variable": "colour", "most": 1}, "no 'colour'"),
        ({"at": {"t": 3}, "most": 1}, "no axis 't'"),
        ({"at": {"d": [32, 64]}, "most": 1}, "d = 32, 64 were not run"),
        ({"over": "SM-II", "most": 1}, "mechanism = SM-II was not run"),
        ({"at": {"d": 4}, "along": "d", "most": 1}, "of d only 4 was run"),
        ({}, "no range"),
    ],
)
def test_what_was_not_run_cannot_be_judged(claim: dict[str, Any], reason: str) -> None:
    found = verdict(MEASURED, **claim)
    assert found.verdict is Verdict.UNJUDGED
    assert reason in found.reason


def test_what_it_names_and_was_not_run_is_said() -> None:
    found = verdict(MEASURED, at={"mechanism": ["IP", "GM"], "d": [4, 8, 64]}, most=9)
    assert found.verdict is Verdict.HOLDS
    assert found.reason == "without mechanism = GM; d = 64"


def test_a_number_that_is_nan_cannot_be_judged() -> None:
    found = verdict(dataset({"mechanism": ["CA"]}, [np.nan]), most=1)
    assert (found.verdict, found.reason) == (Verdict.UNJUDGED, "CA has no number")


def test_a_sentence_about_nothing_computed_keeps_its_reason() -> None:
    found = judge(MEASURED, Claim(text="it is fast", unjudged="no size is stated"))
    assert (found.verdict, found.reason) == (Verdict.UNJUDGED, "no size is stated")


WRITTEN = """\
blocks:
  - {workload: {name: prefix, d: [2, 4]}, mechanism: [IP, CA]}
reference: CA
claims:
  - text: so it is
    variable: variance_ratio
"""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("at: {size: 2}", "mine.yaml, line 7, claims[0].at.size: no axis is called 'size'"),
        ("at: {d: [2, 3]}", "mine.yaml, line 7, claims[0].at.d: d is never 3; expected 2, 4"),
        ("at: {mechanism: ca}", "claims[0].at.mechanism: mechanism is never 'ca'; expected IP, CA"),
        ("over: GM", "mine.yaml, line 7, claims[0].over: mechanism is never 'GM'"),
        ("along: size", "mine.yaml, line 7, claims[0].along: no axis is called 'size'"),
        ("group: range", "mine.yaml, line 7, claims[0].group: no group is called 'range'"),
        ("above: CA", "mine.yaml, line 7, claims[0].above: no such key"),
        ("unjudged: no size", "mine.yaml, line 5, claims[0]: has 'unjudged'"),
        ("least: 2\n    most: 1", "mine.yaml, line 5, claims[0]: least is 2, above most, 1"),
    ],
)
def test_mistakes_are_found_before_anything_runs(line: str, said: str) -> None:
    with pytest.raises(ExperimentError) as error:
        expand(parse_experiment(f"{WRITTEN}    {line}\n", "mine.yaml"))
    assert said in str(error.value)


def test_labels_that_set_has_taken_away_are_no_mistake() -> None:
    text = f"{WRITTEN}    at: {{d: 4}}\n    most: 1\n"
    assert expand(parse_experiment(text, "mine.yaml", ["d=2"]))
    with pytest.raises(ExperimentError, match="no axis is called 'm'"):
        expand(parse_experiment(text.replace("d: 4", "m: 4"), "mine.yaml", ["d=2"]))


@pytest.mark.parametrize(
    ("measured", "stated", "said"),
    [
        ((2.00004, 2.1), (None, 2.0), "2.00004 to 2.1"),
        ((1.99999, 2.1), (None, 2.2), "2 to 2.1"),
        ((0.9999999, 1.0), (1.0, None), "0.9999999 to 1"),
        ((1.23456, 1.23456), (1.2, 1.3), "1.235"),
        ((1.0, 1.0 + 2**-52), (None, 1.0), "1 to 1.0000000000000002"),
    ],
)
def test_measured_digits_show_what_is_outside_the_stated_range(
    measured: tuple[float, float], stated: tuple[float | None, float | None], said: str
) -> None:
    assert measured_range(*measured, stated) == said


def test_a_stated_range_has_all_its_digits() -> None:
    assert stated_range(9900.36, 9900.38) == "9900.36 to 9900.38"
