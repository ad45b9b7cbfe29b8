"""Claims: every verdict is reached, on hand-made datasets, and gives its reason."""

import numpy as np
import pytest
import written

from sweep.experiment.schema import Claim
from sweep.scorecard.claims import judge, judge_by_numbers
from sweep.scorecard.numbers import Compared, Verdict
from sweep.store.records import Status

OK, ABSENT = int(Status.OK), int(Status.ABSENT)
HOLDS, FAILS, VARIES = Verdict.HOLDS, Verdict.FAILS, Verdict.VARIES
UNJUDGED = Verdict.UNJUDGED


def dataset(coords, values, status=OK):
    return written.dataset(coords, {"ratio": values}, status)


def verdict(data, **claim):
    return judge(data, Claim(**{"text": "so it is", "variable": "ratio", **claim}))


SIZES = {"d": [4, 8, 16], "mechanism": ["IP", "CA"]}
VALUES = [[2.0, 1.0], [3.0, 1.5], [5.0, 1.2]]
MEASURED = dataset(SIZES, VALUES)
NOTHING = "nothing that it compares was run"
IP, CA = {"mechanism": "IP"}, {"mechanism": "CA"}


@pytest.mark.parametrize(
    ("claim", "found", "reason"),
    [
        ({"at": IP, "least": 2, "most": 5}, HOLDS, ""),
        ({"at": CA, "most": 1.3}, FAILS, "not at 1 of 3 points: d = 8"),
        ({"most": 1.3}, FAILS, "not at 4 of 6 points: IP, d = 4; IP, d = 8; CA, d = 8; IP, d = 16"),
        ({"at": CA, "over": "IP", "most": 0.4}, FAILS, "not at 2 of 3 points: d = 4; d = 8"),
        ({"at": IP, "along": "d", "least": 1.5}, HOLDS, ""),
        ({"at": CA, "along": "d", "least": 1}, FAILS, "not at 1 of 2 points: d = 16"),
        ({"at": IP, "over": "CA", "along": "d", "least": 1}, HOLDS, ""),
        ({"most": 1.5, "share": 0.5}, HOLDS, "at 50 % of 6 points"),
        ({"most": 1.5, "share": 0.75}, FAILS, "at 50 % of 6 points"),
        ({"most": 1, "slip": "its proof"}, Verdict.SLIP, "not at 5 of 6 points: IP, d = 4; IP, d"),
        ({"most": 9, "slip": "its proof"}, HOLDS, ""),
        ({"variable": "colour", "most": 1}, UNJUDGED, "the dataset has no 'colour'"),
        ({"at": {"t": 3}, "most": 1}, UNJUDGED, f"{NOTHING}; without t = 3"),
        ({"at": {"d": [32, 64]}, "most": 1}, UNJUDGED, f"{NOTHING}; without d = 32, 64"),
        ({"over": "SM-II", "most": 1}, UNJUDGED, f"{NOTHING}; without mechanism = SM-II"),
        ({"at": {"d": 4}, "along": "d", "most": 1}, UNJUDGED, NOTHING),
        ({"along": "epsilon", "most": 1}, UNJUDGED, NOTHING),
        ({}, UNJUDGED, "it states no range"),
        ({"at": {"mechanism": ["IP", "GM"], "d": [4, 64]}, "most": 9}, HOLDS, "without mechanism"),
        ({"variable": None, "unjudged": "no size is stated"}, UNJUDGED, "no size is stated"),
    ],
)
def test_a_claim_is_judged_at_every_point_that_it_names(claim, found, reason):
    judgement = verdict(MEASURED, **claim)
    assert judgement.verdict is found
    assert judgement.reason.startswith(reason)
    assert bool(reason) == bool(judgement.reason)


def test_the_numbers_that_decide_are_kept():
    found = verdict(MEASURED, at=IP, over="CA", least=1)
    assert (found.least, found.most) == (2.0, pytest.approx(5 / 1.2))
    assert (found.points, found.against) == (3, 0)
    grows = verdict(MEASURED, at={**CA, "d": [4, 16]}, along="d", least=1)
    assert (grows.verdict, grows.least, grows.points) == (HOLDS, pytest.approx(1.2), 1)
    assert judge(None, Claim(text="so", variable="ratio", most=1)).reason == "not run"


@pytest.mark.parametrize("axis", ["value", "state"])
def test_an_axis_may_have_any_name(axis):
    data = dataset({axis: [4, 8], "mechanism": ["IP", "CA"]}, [[2.0, 1.0], [3.0, 1.5]])
    assert verdict(data, at={axis: 8}, over="CA", least=2).verdict is HOLDS
    assert verdict(data, at=IP, along=axis, most=1).verdict is FAILS
    assert verdict(data.isel({axis: 0}), at=IP, least=2).verdict is HOLDS


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([Verdict.HOLDS, Verdict.HOLDS], HOLDS),
        ([Verdict.HOLDS, Verdict.FACTOR], Verdict.FACTOR),
        ([Verdict.FACTOR, Verdict.FAILS], FAILS),
        ([Verdict.HOLDS, Verdict.UNJUDGED], UNJUDGED),
    ],
)
def test_a_sentence_that_repeats_numbers_has_their_verdict(verdicts, expected):
    claim = Claim(text="it is 1.3", variable="ratio", at=CA, repeats_number=True)
    numbers = [
        Compared({"d": d, "mechanism": "CA"}, "1.3", one, median=1.3)
        for d, one in enumerate(verdicts)
    ]
    elsewhere = Compared({"d": 0, "mechanism": "IP"}, "9", Verdict.FAILS)
    assert judge_by_numbers(claim, [elsewhere, *numbers]).verdict is expected


SEEDS = {"replicate": [0, 1, 2], "d": [4, 8], "mechanism": ["CA"]}


ONE_HIGH = [[1.1, 1.2], [1.1, 1.6], [1.3, 1.2]]
HIGH_FOR_ALL = [[1.1, 1.6], [1.7, 1.2], [1.1, 1.8]]
ONE_ABSENT = [[1.1, 1.2], [1.6, 1.6], [1.3, None]]
TWO_HOLD = "for 2 of 3 seeds; not at"


@pytest.mark.parametrize(
    ("values", "claim", "found", "reason"),
    [
        (ONE_HIGH, {"most": 1.5}, VARIES, f"{TWO_HOLD} 1 of 2 points: d = 8"),
        (ONE_HIGH, {"most": 1.7}, HOLDS, "for all 3 seeds"),
        (ONE_HIGH, {"most": 1.05}, FAILS, "not at 2 of 2 points: d = 4; d = 8"),
        (HIGH_FOR_ALL, {"most": 1.5}, FAILS, "not at 2 of 2 points: d = 8; d = 4"),
        (HIGH_FOR_ALL, {"at": {"d": 8}, "most": 1.5}, VARIES, "for 1 of 3 seeds"),
        (ONE_ABSENT, {"most": 1.5}, VARIES, f"{TWO_HOLD} 2 of 2 points: d = 4; d = 8"),
    ],
)
def test_a_claim_may_hold_for_some_of_the_seeds(values, claim, found, reason):
    states = [[[ABSENT if value is None else OK] for value in row] for row in values]
    data = dataset(SEEDS, np.array(values, dtype=float)[..., None], states)
    judgement = verdict(data, **claim)
    assert (judgement.verdict, judgement.reason) == (found, reason)


@pytest.mark.parametrize(
    "state", [Status.PENDING, Status.FAILED, Status.TIMEOUT, Status.LOST, Status.NOT_APPLICABLE]
)
def test_a_cell_without_a_result_leaves_it_open_unless_others_contradict_it(state):
    data = dataset(SIZES, VALUES, [[OK, OK], [int(state), OK], [OK, OK]])
    found = verdict(data, at=IP, most=9)
    assert found.verdict is UNJUDGED
    assert found.reason == f"IP, d = 8 is {state.label.replace('_', ' ')}"
    assert verdict(data, at=CA, over="IP", most=9).verdict is UNJUDGED
    assert verdict(data, at=IP, most=4).verdict is FAILS
    seeds = dataset(
        SEEDS,
        [[[1.1], [1.9]], [[1.1], [1.0]], [[1.1], [1.2]]],
        [[[OK]] * 2, [[OK], [int(state)]], [[OK]] * 2],
    )
    assert verdict(seeds, most=1.5).verdict is UNJUDGED


def test_points_outside_the_grid_do_not_count_and_nan_is_no_number():
    data = dataset(SIZES, VALUES, [[OK, OK], [ABSENT, OK], [OK, OK]])
    assert verdict(data, at=IP, most=5).points == 2
    assert verdict(data, at=IP, over="CA", most=5).verdict is HOLDS
    found = verdict(dataset({"mechanism": ["CA"]}, [np.nan]), most=1)
    assert (found.verdict, found.reason) == (UNJUDGED, "CA has no number")
