"""Amplification by shuffling: the values of the reference code, the binary case exactly, and its limits."""

import math

import numpy as np
import pytest
from scipy import stats

from ldpbeam.domains import Categories, Numeric
from ldpbeam.mechanisms import build_mechanism
from ldpbeam.over_time.amplification import (
    _binomial,
    amplified_delta,
    amplified_epsilon,
    composed,
    largest_variation,
)

#: (mechanism, epsilon, users, total variation, epsilon at delta 1e-6): ``amplificationLB`` with 40 bisections
#: of ``unifiedamplification.py`` in github.com/wangsw/PrivacyAmplification, for its mechanisms of one report.
REFERENCE = [
    ("any", 0.5, 100, 0.24491866240370913, 0.2137299607),
    ("any", 0.5, 1000, 0.24491866240370913, 0.0626865657),
    ("any", 1.0, 100, 0.46211715726000974, 0.5160506668),
    ("any", 1.0, 1000, 0.46211715726000974, 0.1486706164),
    ("any", 3.0, 100, 0.9051482536448664, 2.9998711306),
    ("any", 3.0, 1000, 0.9051482536448664, 0.8231113681),
    ("laplace", 0.5, 100, 0.22119921692859512, 0.2008693017),
    ("laplace", 0.5, 1000, 0.22119921692859512, 0.0593141038),
    ("laplace", 1.0, 100, 0.3934693402873666, 0.4620022745),
    ("laplace", 1.0, 1000, 0.3934693402873666, 0.1361649427),
    ("laplace", 3.0, 100, 0.7768698398515702, 2.2933241803),
    ("laplace", 3.0, 1000, 0.7768698398515702, 0.7397055724),
    ("piecewise", 0.5, 100, 0.22119921692859515, 0.2008693017),
    ("piecewise", 0.5, 1000, 0.22119921692859515, 0.0593141038),
    ("piecewise", 1.0, 100, 0.3934693402873665, 0.4620022745),
    ("piecewise", 1.0, 1000, 0.3934693402873665, 0.1361649427),
    ("piecewise", 3.0, 100, 0.7768698398515702, 2.2933241803),
    ("piecewise", 3.0, 1000, 0.7768698398515702, 0.7397055724),
    ("krr", 0.5, 100, 0.060920109955838506, 0.1014273157),
    ("krr", 0.5, 1000, 0.060920109955838506, 0.0296417832),
    ("krr", 1.0, 100, 0.14663257409341549, 0.2667504781),
    ("krr", 1.0, 1000, 0.14663257409341549, 0.0800946296),
    ("krr", 3.0, 100, 0.6561865085589063, 1.9147127391),
    ("krr", 3.0, 1000, 0.6561865085589063, 0.6619834066),
    ("subset", 0.5, 100, 0.09671066604271404, 0.1287048786),
    ("subset", 0.5, 1000, 0.09671066604271404, 0.0380004435),
    ("subset", 1.0, 100, 0.21537860546493645, 0.3263808104),
    ("subset", 1.0, 1000, 0.21537860546493645, 0.0983993527),
    ("subset", 3.0, 100, 0.6672897160012147, 1.9456088871),
    ("subset", 3.0, 1000, 0.6672897160012147, 0.6692276332),
    ("localhash", 0.5, 100, 0.1395483258565912, 0.1560657435),
    ("localhash", 0.5, 1000, 0.1395483258565912, 0.0462796127),
    ("localhash", 1.0, 100, 0.30048918189156226, 0.3925318573),
    ("localhash", 1.0, 1000, 0.30048918189156226, 0.1176861443),
    ("localhash", 3.0, 100, 0.826731342081877, 2.5038724579),
    ("localhash", 3.0, 1000, 0.826731342081877, 0.7719303153),
    ("hardamard", 0.5, 100, 0.12245933120185457, 0.1456369813),
    ("hardamard", 0.5, 1000, 0.12245933120185457, 0.0431409642),
    ("hardamard", 1.0, 100, 0.2310585786300049, 0.3389854913),
    ("hardamard", 1.0, 1000, 0.2310585786300049, 0.1021798329),
    ("hardamard", 3.0, 100, 0.4525741268224332, 1.4573431184),
    ("hardamard", 3.0, 1000, 0.4525741268224332, 0.5275933974),
    ("hardamardB", 0.5, 100, 0.24491866240370913, 0.2137299607),
    ("hardamardB", 0.5, 1000, 0.24491866240370913, 0.0626865657),
    ("hardamardB", 1.0, 100, 0.4621171572600098, 0.5160506668),
    ("hardamardB", 1.0, 1000, 0.4621171572600098, 0.1486706164),
    ("hardamardB", 3.0, 100, 0.9051482536448664, 2.9998711306),
    ("hardamardB", 3.0, 1000, 0.9051482536448664, 0.8231113681),
    ("collision", 0.5, 100, 0.1395483258565912, 0.1560657435),
    ("collision", 0.5, 1000, 0.1395483258565912, 0.0462796127),
    ("collision", 1.0, 100, 0.30048918189156226, 0.3925318573),
    ("collision", 1.0, 1000, 0.30048918189156226, 0.1176861443),
    ("collision", 3.0, 100, 0.826731342081877, 2.5038724579),
    ("collision", 3.0, 1000, 0.826731342081877, 0.7719303153),
]


@pytest.mark.parametrize(("name", "local", "users", "variation", "epsilon"), REFERENCE)
def test_reference_code(name: str, local: float, users: int, variation: float, epsilon: float) -> None:
    assert amplified_epsilon(1e-6, local, variation, users) == pytest.approx(epsilon, abs=1e-6), name


@pytest.mark.parametrize("users", [1, 2, 5, 12])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.6])
def test_binary_randomised_response_is_bounded(users: int, epsilon: float) -> None:
    local, keep = 1.0, 1.0 / (1.0 + math.exp(-1.0))
    # The others all have the same value: the number of ones differs by one user's.
    others = stats.binom.pmf(np.arange(users), users - 1, 1.0 - keep)
    one = np.convolve(others, [keep, 1.0 - keep])
    other = np.convolve(others, [1.0 - keep, keep])
    exact = np.maximum(one - math.exp(epsilon) * other, 0.0).sum()
    found = amplified_delta(epsilon, local, largest_variation(local), users)
    assert exact <= found + 1e-12
    assert users > 1 or found == pytest.approx(exact)


def test_more_users_and_a_larger_delta_never_make_epsilon_larger() -> None:
    variation = largest_variation(2.0)
    by_users = [amplified_epsilon(1e-6, 2.0, variation, users) for users in (1, 10, 100, 1_000, 10_000)]
    assert by_users == sorted(by_users, reverse=True)
    assert by_users[0] <= 2.0
    by_delta = [amplified_epsilon(delta, 2.0, variation, 1_000) for delta in (1e-9, 1e-6, 1e-3)]
    assert by_delta == sorted(by_delta, reverse=True)


@pytest.mark.parametrize(("trials", "share"), [(0, 0.3), (5, 0.5), (40, 0.2), (1_000, 0.01), (10**8, 0.4)])
def test_binomial_probabilities_are_those_of_scipy(trials: int, share: float) -> None:
    reach = 8.0 * math.sqrt(trials * share * (1.0 - share))
    near = np.linspace(trials * share - reach, trials * share + reach, 1_000).round()
    numbers = np.unique(near.clip(0, trials))
    # The exponents are of the size of the trials, with errors of 1e-16 of that.
    wanted = pytest.approx(stats.binom.pmf(numbers, trials, share), rel=1e-12 + 1e-15 * trials)
    assert _binomial(numbers, np.array(trials), share) == wanted


def test_values_out_of_range_are_refused() -> None:
    for arguments in ((0.0, 1.0, 0.1, 10), (1e-6, 1.0, 0.9, 10), (1e-6, 1.0, 0.1, 0)):
        with pytest.raises(ValueError, match=r"must be|total variation"):
            amplified_epsilon(*arguments)


def test_a_hundred_thousand_users_have_the_published_figures() -> None:
    """Epsilon 4 at delta 1e-6: .118 for any mechanism, .082 for OLH, .104 for SW, from the reference code."""
    olh, wave = (
        build_mechanism(name, domain, 4.0).total_variation
        for name, domain in (("olh", Categories(tuple("abcdefgh"))), ("square_wave", Numeric(0.0, 1.0)))
    )
    for variation, epsilon in ((largest_variation(4.0), 0.118), (olh, 0.082), (wave, 0.104)):
        assert amplified_epsilon(1e-6, 4.0, variation, 100_000) == pytest.approx(epsilon, abs=5e-4)


@pytest.mark.parametrize(("count", "epsilon"), [(2, 1.0), (100, 0.1), (720, 0.05)])
def test_composition_bounds_as_many_randomised_responses(count: int, epsilon: float) -> None:
    """The exact delta of that many answers, each kept with probability E/(E + 1), is below the bound's."""
    bound, delta = composed([(epsilon, 0.0)] * count, 1e-6)
    keep = 1.0 / (1.0 + math.exp(-epsilon))
    right = stats.binom.pmf(np.arange(count + 1), count, keep)
    assert np.maximum(right - math.exp(bound) * right[::-1], 0.0).sum() <= delta + 1e-15
    # Few answers add up; of many, advanced composition has less.
    assert (bound, delta) == ((count * epsilon, 0.0) if count == 2 else (pytest.approx(bound), 1e-6))
    assert bound <= count * epsilon
