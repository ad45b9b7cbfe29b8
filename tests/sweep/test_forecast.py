"""What is left of a run, from what was measured: against times drawn from known distributions."""

import numpy as np
import pytest

from sweep.plan.forecast import Forecast


def measured(forecast, kind, planned, took):
    for one, seconds in zip(planned, took, strict=True):
        forecast.done(kind, 1, float(one), float(seconds))


def test_before_anything_was_measured_it_is_the_plan():
    left = Forecast([("CA", 10.0), ("CA", 5.0), ("HM", 1.0)]).left
    assert left.core_s == 16.0
    assert 3.0 < left.spread < 4.5


def test_each_kind_is_corrected_by_its_own_measurements():
    forecast = Forecast([("slow", 1.0)] * 20 + [("quick", 1.0)] * 20)
    measured(forecast, "slow", [1.0] * 10, [30.0] * 10)
    measured(forecast, "quick", [1.0] * 10, [0.1] * 10)
    assert forecast.ratios == pytest.approx({"slow": 30.0, "quick": 0.1})
    assert forecast.left.core_s == pytest.approx(10 * 30.0 + 10 * 0.1)
    assert forecast.left.spread < 1.2


def test_a_kind_that_was_not_measured_is_expected_to_err_as_the_others():
    forecast = Forecast([("known", 1.0)] * 10 + [("unknown", 1.0)] * 4)
    measured(forecast, "known", [1.0] * 10, [5.0] * 10)
    assert forecast.left.core_s == pytest.approx(20.0)
    assert forecast.left.spread > 1.5


def test_one_solve_that_hangs_does_not_count_for_all():
    forecast = Forecast([("CA", 1.0)] * 100)
    rng = np.random.default_rng(0)
    measured(forecast, "CA", [1.0] * 49, rng.lognormal(0.0, 0.1, 49))
    measured(forecast, "CA", [1.0], [10_000.0])
    assert forecast.left.core_s == pytest.approx(50.0, rel=0.1)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.8])
def test_four_of_five_runs_end_within_the_spread(share):
    rng = np.random.default_rng(1)
    inside = []
    for _ in range(200):
        planned = {kind: -np.sort(-rng.lognormal(0.0, 1.0, 60)) for kind in "abc"}  # longest first
        took = {
            kind: seconds * rng.lognormal(0.0, 1.0) * rng.lognormal(0.0, 0.4, 60)
            for kind, seconds in planned.items()
        }
        forecast = Forecast([(kind, one) for kind in planned for one in planned[kind]])
        first = int(60 * share)
        for kind, seconds in planned.items():
            measured(forecast, kind, seconds[:first], took[kind][:first])
        true = sum(seconds[first:].sum() for seconds in took.values())
        left = forecast.left
        inside.append(left.core_s / left.spread < true < left.core_s * left.spread)
    assert 0.7 < np.mean(inside) < 0.95


def test_nothing_is_left_in_the_end():
    forecast = Forecast([("CA", 0.1)] * 3)
    measured(forecast, "CA", [0.1] * 3, [0.2] * 3)
    assert forecast.left.core_s == 0.0
    forecast.done("retried", 1, 1.0, None)
    assert forecast.left.core_s == 0.0
