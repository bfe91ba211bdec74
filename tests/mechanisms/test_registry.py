"""The registry of mechanisms, and what a study file may ask it for."""

from __future__ import annotations

import pytest

from ldpbeam import Categories, Numeric, build_mechanism, registered_mechanisms
from ldpbeam.mechanisms import RandomisedResponse, SquareWave

UNIT = Numeric(0.0, 1.0)
COLOURS = Categories(("red", "green", "blue"))


def test_our_mechanisms_are_registered_under_their_own_names() -> None:
    known = registered_mechanisms()
    ours = {"grr", "laplace", "piecewise", "square_wave", "stochastic_rounding"}
    assert ours <= set(known)
    assert list(known) == sorted(known)
    for name, mechanism in known.items():
        assert mechanism.name == name
        assert mechanism.summary


def test_build_gives_the_mechanism_for_the_domain() -> None:
    assert build_mechanism("square_wave", Numeric(-40.0, 60.0), 0.5) == SquareWave(0.5)
    assert build_mechanism("grr", COLOURS, 2.0) == RandomisedResponse(2.0, size=3)


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(
        ValueError, match=r"unknown mechanism 'sw'; for numeric values there are: .*laplace, .*piecewise"
    ):
        build_mechanism("sw", UNIT, 1.0)


@pytest.mark.parametrize(
    ("name", "domain", "kind"), [("square_wave", COLOURS, "numeric values"), ("grr", UNIT, "categories")]
)
def test_a_domain_of_the_wrong_kind_is_refused(name: str, domain: Numeric | Categories, kind: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}' is for {kind}"):
        build_mechanism(name, domain, 1.0)


def test_an_option_a_mechanism_does_not_take_is_refused() -> None:
    with pytest.raises(ValueError, match="'laplace' has no option 'scale'; it takes none"):
        build_mechanism("laplace", UNIT, 1.0, scale=2.0)
    with pytest.raises(ValueError, match="'grr' has no option 'size'"):
        build_mechanism("grr", COLOURS, 1.0, size=4)


def test_one_category_is_refused() -> None:
    with pytest.raises(ValueError, match="two categories or more"):
        RandomisedResponse(1.0, size=1)
