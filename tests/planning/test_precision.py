"""Precision before a study, against identities. That of simulated reports is with plan."""

from __future__ import annotations

import math

import pytest

from ldpbeam.attributes import Attribute, ServiceVersion
from ldpbeam.domains import Categories, KeyValues, Numeric
from ldpbeam.mechanisms import build_mechanism
from ldpbeam.planning.precision import Precision, precision


def asked(*services: tuple[str, float], buckets: int = 64, **options: int) -> Attribute:
    """Numbers from 0 to 10, asked for by mechanisms of some epsilons."""
    domain = Numeric(0.0, 10.0)
    versions = tuple(
        ServiceVersion(f"s{place}", "", build_mechanism(name, domain, epsilon, **options))
        for place, (name, epsilon) in enumerate(services)
    )
    return Attribute("x", domain, buckets, versions)


def test_two_possible_reports_tell_no_more_than_their_mean() -> None:
    attribute = asked(("stochastic_rounding", 0.8), buckets=256)
    of_mean = precision(attribute, "ivw", ["s0"])
    of_likelihood = precision(attribute, "em", ["s0"])
    assert of_likelihood.best == pytest.approx(of_mean.best, rel=1e-6)
    assert of_likelihood.worst == pytest.approx(of_mean.worst, rel=1e-6)


@pytest.mark.parametrize("mechanism", ["piecewise", "laplace", "hybrid", "square_wave"])
def test_the_likelihood_is_never_worse_than_the_unbiased_mean(mechanism: str) -> None:
    attribute = asked((mechanism, 1.0), ("stochastic_rounding", 0.5), buckets=256)
    of_mean = precision(attribute, "ivw", ["s0", "s1"])
    of_likelihood = precision(attribute, "em", ["s0", "s1"])
    # Report buckets lose a little of what a report says.
    assert of_likelihood.best <= of_mean.best * 1.01
    assert of_likelihood.worst <= of_mean.worst * 1.01


def likeliest(attribute: Attribute) -> Precision:
    return precision(attribute, "em", attribute.services)


@pytest.mark.parametrize(
    ("mechanism", "options", "buckets", "others"),
    [
        ("square_wave", {}, 256, 257),
        ("square_wave", {}, 256, 514),
        ("binned", {"bins": 20}, 240, 20 * 31),
        ("haar", {"leaves": 64}, 256, 64 * 11),
        ("hierarchy", {"leaves": 16}, 256, 16 * 31),
        ("discrete_square_wave", {"bins": 100}, 200, 700),
        # As many bins as a matrix has rows, and a few more.
        ("discrete_square_wave", {"bins": 253}, 253, 253 * 2),
        ("discrete_square_wave", {"bins": 257}, 257, 257 * 2),
    ],
)
def test_buckets_without_large_divisors_have_the_errors_of_others(
    mechanism: str, options: dict[str, int], buckets: int, others: int
) -> None:
    one, other = (likeliest(asked((mechanism, 1.0), buckets=n, **options)) for n in (buckets, others))
    assert other.best == pytest.approx(one.best, rel=0.02)
    assert other.worst == pytest.approx(one.worst, rel=0.02)


def test_services_with_bins_of_their_own_have_an_error() -> None:
    domain = Numeric(0.0, 10.0)
    versions = tuple(
        ServiceVersion(f"{bins}", "", build_mechanism("binned", domain, 1.0, bins=bins))
        for bins in (6, 16, 9)
    )
    # 144 is the least multiple of all, and divides the buckets.
    both = likeliest(Attribute("x", domain, 144 * 5, versions))
    alone = likeliest(Attribute("x", domain, 144 * 5, versions[:1]))
    assert 0.0 < both.worst < alone.worst


@pytest.mark.parametrize("mechanism", ["square_wave", "piecewise", "laplace"])
def test_errors_grow_as_one_over_a_small_epsilon(mechanism: str) -> None:
    # That of a sign with the probability E/(E+1) is 1/epsilon of the width.
    errors = [epsilon * likeliest(asked((mechanism, epsilon))).best for epsilon in (1e-2, 1e-4, 1e-5, 1.1e-6)]
    assert errors == pytest.approx([10.0] * 4, rel=0.01)


def test_very_many_bins_have_no_formula() -> None:
    assert precision(asked(("binned", 1.0), buckets=4096, bins=2048), "em", ["s0"]) is None


def test_where_a_value_lies_in_its_bin_is_no_error_of_the_mean() -> None:
    domain = Numeric(0.0, 1.0)
    mechanism = build_mechanism("binned", domain, 1.0, bins=16)
    attribute = Attribute("x", domain, 256, (ServiceVersion("a", "", mechanism),))
    found = precision(attribute, "norm_sub", ["a"])
    assert found.worst < 10.0


def test_two_services_halve_the_variance_of_a_share() -> None:
    domain = Categories(("a", "b", "c", "d"))
    versions = tuple(ServiceVersion(name, "", build_mechanism("grr", domain, 1.0)) for name in "xy")
    attribute = Attribute("c", domain, 4, versions)
    one, both = (precision(attribute, "em", services) for services in (["x"], ["x", "y"]))
    assert both.worst == pytest.approx(one.worst / math.sqrt(2))
    e = math.exp(1.0)
    assert one.worst == pytest.approx(math.sqrt(e + 2) / (e - 1))


def test_the_last_version_of_a_service_counts() -> None:
    domain = Numeric(0.0, 1.0)
    weak, strong = (build_mechanism("piecewise", domain, epsilon) for epsilon in (0.1, 2.0))
    both = Attribute("x", domain, 64, (ServiceVersion("a", "1", weak), ServiceVersion("a", "2", strong)))
    alone = Attribute("x", domain, 64, (ServiceVersion("a", "", strong),))
    assert precision(both, "ivw", ["a"]) == precision(alone, "ivw", ["a"])


def test_people_for_an_error_have_that_error() -> None:
    found = precision(asked(("piecewise", 1.0)), "ivw", ["s0"])
    people = found.users_for(0.05)
    assert found.error(people)[1] <= 0.05 < found.error(people - 1)[1]


def test_keys_have_no_formula() -> None:
    domain = KeyValues(("a", "b"), Numeric(0.0, 1.0))
    mechanism = build_mechanism("pckv_ue", domain, 1.0, padding=2)
    attribute = Attribute("k", domain, 2, (ServiceVersion("a", "", mechanism),))
    assert precision(attribute, "pckv_em", ["a"]) is None
