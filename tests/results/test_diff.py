"""``ldpbeam diff``: what is equal, what differs by less than its error, and what by more."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import norm
from support.estimate_records import held, paid, price, results

from ldpbeam.answers.difference import Comparison, compared
from ldpbeam.results import diff

#: How many standard errors there are between a number and an end of its interval of 95%.
WIDE = norm.ppf(0.975)


def errors_of(found: Comparison) -> dict[tuple[str, str], float | None]:
    return {(own.key.attribute, own.number): own.error for own in found.differences}


def test_results_do_not_differ_from_themselves() -> None:
    found = compared(results(price(), paid()), results(price(), paid()))
    assert not found.differs
    assert [(own.key.attribute, own.number) for own in found.differences] == [
        ("price", "mean"), ("price", "quantile 0.5"), ("price", "share from 0 to 2"),
        ("paid", "share of cash"), ("paid", "share of card > 5"),
    ]  # fmt: skip
    assert all(own.first == own.second and not own.beyond for own in found.differences)


def test_each_number_is_compared_with_the_errors_of_both() -> None:
    second = price(mean=5.5, intervals=held(certain={"mean": (5.0, 6.2)}))
    found = compared(results(price(), paid()), results(second, paid()))
    errors = errors_of(found)
    # The longer side of an interval counts: it may be cut on the other.
    assert errors["price", "mean"] == pytest.approx(math.hypot(1.0, 0.7) / WIDE)
    assert errors["paid", "share of cash"] == pytest.approx(math.hypot(0.1, 0.1) / WIDE)
    assert errors["price", "quantile 0.5"] is None
    # Bonferroni's z is of the numbers of a family that have an error.
    assert found.z == pytest.approx(
        {"means": WIDE, "quantiles": WIDE, "ranges": WIDE, "shares": norm.ppf(1 - 0.05 / 2 / 2)}
    )
    known = compared(results(price(standard_error=0.3)), results(price(standard_error=0.4)))
    assert errors_of(known)["price", "mean"] == pytest.approx(0.5)


def test_intervals_that_hold_at_once_have_the_errors_of_each_share() -> None:
    ends = [(0.05, 0.2), (0.8, 0.95)]
    together = held(simultaneous=True, certain={"frequencies": ends, "key_means": ends})
    keys = paid(
        categories=None, keys=("cash", "card > 5"), key_means=(0.1, 0.9), intervals=together,
    )  # fmt: skip
    found = compared(results(keys), results(keys))
    # Each of two intervals misses its number once in 40 times, so that both hold in 95%.
    each = math.hypot(0.1, 0.1) / norm.ppf(0.9875)
    assert [own.error for own in found.differences] == pytest.approx([each] * 4)


@pytest.mark.parametrize(("by", "beyond"), [(0.999, False), (1.001, True)])
@pytest.mark.parametrize("sign", [-1, 1])
def test_a_difference_is_beyond_the_error_from_z_standard_errors_on(
    by: float, beyond: bool, sign: int
) -> None:
    one, two = (price(intervals=None, standard_error=error, quantiles=None) for error in (0.3, 0.4))
    moved = replace(two, mean=5.0 + sign * by * WIDE * 0.5)
    found = compared(results(one), results(moved))
    verdict = {-1: "lower", 1: "higher"}[sign] if beyond else "not certain"
    assert [own.verdict for own in found.differences] == [verdict, "no error is known"]
    assert found.differs == beyond
    # Of two means, each is judged as one of two.
    both = [[record, replace(record, attribute="cost")] for record in (one, moved)]
    assert not compared(results(*both[0]), results(*both[1])).differs


def test_estimates_that_only_one_has_and_other_names() -> None:
    other = paid(categories=("cash", "cheque"))
    found = compared(results(price(), paid()), results(price(name="other"), other))
    assert (found.only_first, found.only_second) == ((price().key,), (price(name="other").key,))
    assert found.unlike == (paid().key,)
    assert found.differs
    assert found.differences == ()


def test_an_estimate_of_no_report_is_on_one_side_only() -> None:
    empty = price(reports=0, mean=None, quantiles=None, ranges=None, intervals=None)
    lost, gained = (compared(results(*sides[0]), results(*sides[1])) for sides in (
        ((price(), paid()), (empty, paid())), ((empty, paid()), (price(), paid())),
    ))  # fmt: skip
    assert (lost.only_first, lost.only_second, lost.unlike) == ((price().key,), (), ())
    assert (gained.only_first, gained.only_second, gained.unlike) == ((), (price().key,), ())
    assert lost.differs and gained.differs
    assert not compared(results(empty), results(empty)).differs


def test_numbers_that_one_side_lacks_differ_whichever_side_it_is() -> None:
    few = price(quantiles=None)
    for sides in ((price(), few), (few, price())):
        found = compared(*map(results, sides))
        assert (found.unlike, found.differs) == ((price().key,), True)
        assert [own.number for own in found.differences] == ["mean", "share from 0 to 2"]


@pytest.mark.parametrize(("options", "code"), [((), 0), (("--if-smooth",), 1)])
def test_the_exit_code_counts_what_differs_if_people_are_smooth_where_it_is_asked_to(
    options: tuple[str, ...], code: int, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Medians that are known to 1 if people are smooth lie 4 apart, and certain intervals of them meet."""
    sides = {
        name: results(price(
            mean=None, ranges=None, quantiles={"0.5": value},
            intervals=held(certain={"quantiles": (1, 9)}, if_smooth={"quantiles": (value - 1, value + 1)}),
        ))
        for name, value in (("one", 3.0), ("two", 7.0))
    }  # fmt: skip
    monkeypatch.setattr(diff, "read_results", sides.__getitem__)
    ran = command("diff", "one", "two", *options)
    assert (ran.code, ran.err) == (code, "") and "higher if smooth" in ran.out


def test_the_command_says_what_differs(folders: dict[str, Path], tmp_path: Path, command: Any) -> None:
    second = tmp_path / "second"
    shutil.copytree(folders["batch"], second)
    lines = [json.loads(line) for line in (second / "estimates.jsonl").read_text().splitlines()]
    first, *others = lines
    moved = [
        line | ({"mean": 1e6, "intervals": {"level": 0.95}} if "mean" in line else {}) for line in others
    ]
    assert any("standard_error" in line for line in moved)
    (second / "estimates.jsonl").write_text("".join(json.dumps(line) + "\n" for line in moved))
    about = json.loads((second / "run.json").read_text())
    (second / "run.json").write_text(json.dumps(about | {"study_fingerprint": "0" * 32}))
    ran = command("diff", folders["batch"], second, "--json")
    found = json.loads(ran.out)
    assert (ran.code, found["differs"], len(found["only_first"])) == (1, True, 1)
    beyond = {own["number"] for own in found["numbers"] if own["beyond"]}
    assert beyond == {"mean"}
    assert {own["verdict"] for own in found["numbers"] if own["beyond"]} == {"higher"}
    said = command("diff", folders["batch"], second)
    assert said.code == 1
    assert f"1 estimate only in {folders['batch']}: {first['attribute']} {first['name']}" in said.out
    assert "different studies" in said.err
