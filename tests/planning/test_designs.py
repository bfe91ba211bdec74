"""``ldpbeam plan --designs``: what four ways to spend an epsilon reveal, and how precise they are."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.mechanisms import build_mechanism
from ldpbeam.memoised import Lifetime, steps_of
from ldpbeam.planning.designs import Design, designs
from ldpbeam.schemas.study.yaml_file import parse_study

STUDY = """\
study: hours
attributes:
  drink:
    domain: {categories: 10}
    services:
      plain: {mechanism: grr, epsilon: 1.0}
      kept: {mechanism: oue, epsilon: 1.0, lifetime_epsilon: 2.0, values_at_most: 3}
    estimates: {shares: {estimator: inversion, services: [plain]}}
  minutes:
    domain: {numeric: [0, 60]}
    buckets: 32
    services:
      sign: {mechanism: stochastic_rounding, epsilon: 1.0}
      noise: {mechanism: laplace, epsilon: 1.0}
windows: {size: 1h}
"""


def by_design(name: str, service: str, text: str = STUDY) -> dict[str, Design]:
    lines = designs(parse_study(text), name, 10_000)
    return {line.design: line for line in lines if line.service == service}


def of_one(service: str, buckets: int, categories: int = 10) -> dict[str, Design]:
    """The designs of a service that asks for a number, or for a category where there are no buckets."""
    domain = f"numeric: [0, 60]}}\n    buckets: {buckets}" if buckets else f"categories: {categories}}}"
    attribute = f"    domain: {{{domain}\n    services: {{a: {{{service}}}}}\n"
    return by_design("x", "a", f"study: one\nattributes:\n  x:\n{attribute}windows: {{size: 1h}}\n")


@pytest.mark.parametrize(
    ("name", "service", "ratio"),
    [("drink", "plain", 57.3), ("drink", "kept", 26.1), ("minutes", "sign", 20.5)],
)
def test_a_panel_is_more_precise_than_a_split_epsilon(name: str, service: str, ratio: float) -> None:
    """The variances of docs/over_time.md; that of a sign is the greatest of some populations."""
    lines = by_design(name, service)
    for of_split, of_panel in (
        (lines["split"].window, lines["panel"].window),
        (lines["split"].period, lines["panel"].period),
    ):
        assert (of_split / of_panel) ** 2 == pytest.approx(ratio, rel=0.1 if name == "minutes" else 2e-3)
    assert lines["split"].about_values == lines["panel"].about_values == 30.0
    assert lines["fresh noise"].about_values == lines["fresh noise"].changes_included == 720.0
    # A day of fresh noise has 24 times the reports of a window.
    assert lines["fresh noise"].period == pytest.approx(lines["fresh noise"].window / math.sqrt(24.0))


def test_remembered_noise_reveals_less_of_values_and_more_of_changes() -> None:
    line = by_design("drink", "kept")["remembered noise"]
    oue = build_mechanism("oue", parse_study(STUDY).attribute("drink").domain, 1.0)
    lifetime = Lifetime(oue, 2.0)
    chain = lifetime.chain
    assert line.about_values == 6.0  # three values of two
    assert line.changes_included == pytest.approx(720 * steps_of(lifetime).loss)
    # Of people who do not have the category: one permanent answer for the day, 24 instant ones from it.
    (p, q), kept, (with_it, without) = chain.window, chain.permanent[1], chain.instant
    between = kept * (1 - kept) * (with_it - without) ** 2
    within = (kept * with_it * (1 - with_it) + (1 - kept) * without * (1 - without)) / 24
    assert line.period == pytest.approx(math.sqrt((between + within) / 10_000) / (p - q))


def test_a_service_that_cannot_remember_has_three_designs() -> None:
    assert list(by_design("minutes", "noise")) == ["fresh noise", "split", "panel"]
    assert by_design("minutes", "sign")["remembered noise"].about_values == 512.0  # 256 memo buckets of two


@pytest.mark.parametrize(
    ("service", "buckets"),
    [
        ("mechanism: haar, leaves: 64", 64),
        ("mechanism: hierarchy, leaves: 64", 64),
        ("mechanism: binned, bins: 50", 100),
        ("mechanism: binned, bins: 64", 64),
        ("mechanism: general_wave, top: 0.2", 32),
        ("mechanism: olh, hashes: 5", 0),
        # The best number of hashes follows from the epsilon, and LOLOHA's from both epsilons.
        ("mechanism: olh", 0),
        ("mechanism: olh, lifetime_epsilon: 6, as_published: true", 0),
    ],
)
def test_a_split_epsilon_keeps_the_options_that_the_study_names(service: str, buckets: int) -> None:
    split = of_one(f"{service}, epsilon: 4.8", buckets)["split"]
    fresh, _, _ = service.partition(", lifetime_epsilon")
    small = of_one(f"{fresh}, epsilon: 0.2", buckets)["fresh noise"]
    assert split.window == pytest.approx(small.window, rel=1e-12)


@pytest.mark.parametrize(
    ("epsilon", "without"),
    [("20", "remembered noise"), ("12", ""), ("1e-5", "split"), ("2e-6", "split")],
)
@pytest.mark.parametrize(("mechanism", "buckets"), [("grr", 0), ("olh", 0), ("stochastic_rounding", 32)])
def test_an_epsilon_out_of_range_makes_no_design(
    epsilon: str, without: str, mechanism: str, buckets: int
) -> None:
    lines = of_one(f"mechanism: {mechanism}, epsilon: {epsilon}", buckets)
    assert {"fresh noise", "split", "panel", "remembered noise"} - {without} == set(lines)
    if epsilon == "12":
        assert "20 for life" in lines["remembered noise"].reports


def test_options_that_only_a_larger_epsilon_has_make_no_split() -> None:
    # With two hash values, 100 seeds do not tell 1,000 categories apart.
    assert "split" not in of_one("mechanism: olh, seeds: 100, epsilon: 4", 0, 1000)


@pytest.mark.parametrize(
    ("size", "panel", "windows", "in_month"),
    [
        ("12h", 0, 2, 60),
        ("1d", 0, 30, 30),
        ("1d", 7, 7, 30),
        ("15d", 0, 2, 2),
        ("30d", 12, 12, 1),
        ("1h", 6, 6, 720),
    ],
)
def test_longer_windows_have_a_period_of_a_month_and_a_panel_has_its_own(
    size: str, panel: int, windows: int, in_month: int
) -> None:
    text = STUDY.replace("size: 1h", f"size: {size}") + (f"panel: {{windows: {panel}}}\n" if panel else "")
    lines = by_design("drink", "plain", text)
    domain = parse_study(STUDY).attribute("drink").domain
    split, whole = (build_mechanism("grr", domain, epsilon) for epsilon in (1.0 / windows, 1.0))
    variance = split.frequency_variance / whole.frequency_variance  # type: ignore[attr-defined]
    assert (lines["split"].period / lines["panel"].period) ** 2 == pytest.approx(variance / windows)
    assert lines["panel"].window == pytest.approx(lines["fresh noise"].window * math.sqrt(windows))
    assert {line.windows for line in lines.values()} == {windows}
    assert lines["fresh noise"].about_values == in_month
    assert lines["panel"].about_values == lines["split"].about_values == pytest.approx(in_month / windows)


def test_one_window_in_a_month_is_not_divided_and_a_longer_one_not_compared() -> None:
    month, longer = (STUDY.replace("size: 1h", f"size: {size}") for size in ("30d", "31d"))
    assert list(by_design("drink", "kept", month)) == ["fresh noise", "remembered noise"]
    assert not by_design("drink", "kept", longer)


def test_the_command_prints_them_beside_each_other(command: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)
    asked = ("plan", "--study", tmp_path / "study.yaml", "--users", 10_000, "--designs")
    lines = json.loads(command(*asked, "--json").out)
    assert [line["design"] for line in lines[:3]] == ["fresh noise", "split", "panel"]
    said = command(*asked).out
    assert "epsilon 1 in one window of 24" in said
    assert "what a month reveals of one user" in said
    (tmp_path / "study.yaml").write_text(STUDY.replace("size: 1h", "size: 31d"))
    for options in ((), ("--json",)):
        ran = command(*asked, *options)
        assert ran.code == 2
        assert "there is nothing to compare" in ran.err
