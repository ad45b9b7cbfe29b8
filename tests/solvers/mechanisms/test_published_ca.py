"""CA as the authors of PVLDB 14(10) ran it, against the ratios that their tables print."""

import numpy as np
import pytest

import solvers
import workloads

# At equal privacy cost, CA / IP is free of the papers' reference.
# (family, parameters, printed IP, printed CA, wCA-I and wCA-II)
PRINTED = [
    ("published-range", {"d": 64}, 10.63, {"CA": 1.27}),
    ("published-range", {"d": 128}, 17.45, {"CA": 1.25}),
    ("published-range", {"d": 128, "bounds": "random"}, 21.28, {"CA": 2.14, "wCA-I": 1.49}),
    ("published-random", {"d": 64}, 2.58, {"CA": 2.43, "wCA-I": 1.15, "wCA-II": 1.61}),
    ("published-random", {"d": 128}, 2.82, {"CA": 2.58, "wCA-I": 1.18, "wCA-II": 1.72}),
    ("published-random", {"d": 128, "bounds": "important"}, 6.05, {"CA": 5.35}),
    ("published-related", {"d": 64}, 3.51, {"CA": 1.31}),
]
HALF_A_DIGIT = 0.005
LAST_BITS = 1e-3
"""Relative change of the result when entries of W change in the 14th digit, as measured."""


@pytest.mark.parametrize(("family", "params", "printed_ip", "printed"), PRINTED)
def test_the_ratio_of_ca_to_ip_is_the_printed_one(family, params, printed_ip, printed):
    workload = workloads.make(family, **params)
    ip = solvers.solve("IP", workload).squared_privacy_cost
    for weighting, ratio in printed.items():
        found = solvers.solve("published-CA", workload, weighting=weighting).squared_privacy_cost
        least = (ratio - HALF_A_DIGIT) / (printed_ip + HALF_A_DIGIT) * (1 - LAST_BITS)
        most = (ratio + HALF_A_DIGIT) / (printed_ip - HALF_A_DIGIT) * (1 + LAST_BITS)
        assert least <= found / ip <= most, weighting


def test_the_ages_of_march_2021_have_the_printed_ratio():
    workload = workloads.make("published-age", identity=True)
    ip, ca = (solvers.solve(n, workload, 1).squared_privacy_cost for n in ("IP", "published-CA"))
    assert ca / ip * 32.49 == pytest.approx(1.58, abs=HALF_A_DIGIT)


@pytest.mark.parametrize(("weighting", "power"), [("wCA-I", 1), ("wCA-II", 0.5)])
def test_weights_are_those_of_scaled_queries(weighting, power):
    workload = workloads.make("published-range", d=16, bounds="random")
    targets = workload.stated.targets
    weighted = solvers.solve("published-CA", workload, weighting=weighting)
    scaled = workload.dense / targets[:, None] ** power
    plain = solvers.solve("published-CA", scaled, targets ** (1 - 2 * power))
    # the noise of the scaled queries, scaled back: its variances over the targets are the same
    assert weighted.squared_privacy_cost == pytest.approx(plain.squared_privacy_cost, rel=1e-6)
    np.testing.assert_allclose(
        weighted.query_variances, plain.query_variances * targets ** (2 * power), rtol=1e-5
    )
