"""Which name is probably meant by another."""

from __future__ import annotations

import pytest

from ldpbeam.nearest import did_you_mean, nearest


@pytest.mark.parametrize(
    ("name", "names", "meant"),
    [
        ("windows:", ["window", "windows"], "windows"),  # the same letters go first
        ("userid", ["uid", "user_id"], "user_id"),
        ("PRICE", ["weight", "Price"], "Price"),  # as it is spelled there
        ("sqare_wave", ["grr", "square_wave"], "square_wave"),
        ("17", ["18", "-"], None),  # without letters nothing has the same letters; 17 and 18 share half
        ("payload", ["weight"], None),
        ("payload", [], None),
        ("a", ["A", "a "], "A"),  # the first of several
    ],
)
def test_the_nearest_name(name: str, names: list[str], meant: str | None) -> None:
    assert nearest(name, names) == meant


def test_the_question_or_what_is_said_instead() -> None:
    assert did_you_mean("grp", ["grr", "oue"]) == "did you mean 'grr'?"
    assert did_you_mean("laplace", ["grr", "oue"], "there are: grr, oue") == "there are: grr, oue"
