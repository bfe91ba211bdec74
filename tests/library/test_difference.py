"""``ldp.difference`` and ``Estimates.difference``: two windows or groups of reports in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import ldpbeam as ldp
from ldpbeam.answers.difference import Comparison
from ldpbeam.library.differences import not_compared
from ldpbeam.schemas.outputs.records import EstimateKey

TEN, ELEVEN = "2026-11-20T10:00:00Z", "2026-11-20T11:00:00Z"
HOUR, START = 3_600_000, 1_795_168_800_000
STUDY = """\
study: s
attributes:
  drink:
    domain: {categories: [tea, coffee, water]}
    services:
      grr: {mechanism: grr, epsilon: 4}
      oue: {mechanism: oue, epsilon: 4}
      olh: {mechanism: olh, epsilon: 4}
    estimates: {shares: {estimator: em, services: [grr]}}
  minutes:
    domain: {numeric: [0, 180]}
    buckets: 8
    services: {piecewise: {mechanism: piecewise, epsilon: 4}, laplace: {mechanism: laplace, epsilon: 4}}
    estimates: {mean: {estimator: ivw, services: [piecewise]}}
  films:
    domain: {keys: [drama, comedy], values: [0, 10]}
    services: {pckv: {mechanism: pckv_grr, epsilon: 2}}
    estimates: {films: {estimator: key_value}}
windows: {size: 1h}
"""
SAME = ldp.Study.from_yaml(STUDY)
GROUPED = ldp.Study.from_yaml(STUDY + "groups: {field: region, at_most: 1}\n")


def sent(study: ldp.Study, rng: np.random.Generator, people: int = 300) -> list[Any]:
    """Reports of the same people in both windows, most of whose values last, and of some in one only."""
    tables = []
    drinks = rng.choice(["tea", "coffee", "water"], people)
    minutes = rng.uniform(0, 180, people)
    for hour in range(2):
        here = np.flatnonzero(rng.random(people) < 0.8)
        users = [f"u{place}" for place in here]
        groups = {"groups": np.where(here % 3, "north", "south")} if study.groups else {}
        values = {"drink": drinks, "minutes": minutes, "films": [{"drama": 5.0}] * people}
        for name, attribute in study.attributes.items():
            for service in attribute.services:
                client = ldp.Client(study, name, service, rng=rng)
                own = [values[name][place] for place in here]
                tables.append(client.reports(own, users, event_times=START + hour * HOUR, **groups))
        drinks = np.where(rng.random(people) < 0.1, "tea", drinks)
    return tables


def by_number(found: ldp.Differences) -> dict[tuple[str, str, str], Any]:
    return {(own.key.attribute, own.key.name, own.number): own for own in found}


def test_shares_are_those_of_a_loop_over_users() -> None:
    tables = sent(SAME, np.random.default_rng(1))
    differences = by_number(ldp.difference(SAME, tables, windows=(TEN, ELEVEN)))
    reports = [row for table in tables for row in table.to_pylist() if row["service"] == "grr"]
    named: dict[str, dict[int, int]] = {}
    for row in reports:
        which = int(row["event_time"].timestamp() * 1000) >= START + HOUR
        named.setdefault(row["user_id"], {})[which] = int(row["payload"])
    n = [sum(which in answers for answers in named.values()) for which in (0, 1)]
    p, q = (np.exp(4) / (np.exp(4) + 2), 1 / (np.exp(4) + 2))
    for category, label in enumerate(("tea", "coffee", "water")):
        rates = [
            sum(answers.get(which) == category for answers in named.values()) / n[which] for which in (0, 1)
        ]
        moved = [
            sum(
                (-1, 1)[which] * ((answers[which] == category) - rates[which]) / n[which] for which in answers
            )
            for answers in named.values()
        ]
        share = differences["drink", "grr", f"share of {label}"]
        assert (share.first, share.second) == pytest.approx([(rate - q) / (p - q) for rate in rates])
        assert share.error == pytest.approx(np.sqrt(np.square(moved).sum()) / (p - q))
        # The nine shares of three services hold together.
        z = norm.ppf(1 - 0.05 / 2 / 9)
        assert share.high - (share.second - share.first) == pytest.approx(z * share.error)


def test_the_order_of_reports_and_duplicates_do_not_matter_and_what_is_left_out_is_said() -> None:
    rng = np.random.default_rng(2)
    tables = sent(SAME, rng)
    found = ldp.difference(SAME, tables, windows=(TEN, ELEVEN))
    again = [table.take(rng.permutation(len(table))) for table in tables[::-1]]
    assert by_number(ldp.difference(SAME, again, windows=(TEN, ELEVEN))).keys() == by_number(found).keys()
    for key, own in by_number(ldp.difference(SAME, again, windows=(START, START + HOUR))).items():
        assert own.error == pytest.approx(by_number(found)[key].error)
    assert {own.key.name for own in found} == {"grr", "oue", "olh", "piecewise", "laplace"}
    assert "films: reports of pckv are not compared" in found.about
    table = found.to_arrow().to_pylist()
    assert table[0]["difference"] == pytest.approx(table[0]["second"] - table[0]["first"])
    assert table[0]["first_window_start"].hour == 10
    turned = by_number(ldp.difference(SAME, tables, windows=(ELEVEN, TEN)))
    for key, own in by_number(found).items():
        assert (turned[key].low, turned[key].high) == pytest.approx((-own.high, -own.low))


def test_the_mean_is_that_of_the_estimate_and_narrower_for_the_same_people() -> None:
    tables = sent(SAME, np.random.default_rng(3), 2_000)
    found = by_number(ldp.difference(SAME, tables, windows=(TEN, ELEVEN)))
    own = found["minutes", "piecewise", "mean"]
    means = list(ldp.estimate(SAME, tables).only("mean"))
    assert (own.first, own.second) == pytest.approx([record.mean for record in means])
    # 64% of the people are in both windows with values that last, whose spread is most of the error.
    spread = 180 / np.sqrt(12) * np.sqrt(2 / 1_600)
    assert own.error < 0.9 * np.hypot(spread, np.hypot(*(record.standard_error for record in means)))
    for service in ("olh", "oue"):
        shares = [found["drink", service, f"share of {label}"] for label in ("tea", "coffee", "water")]
        assert sum(share.first for share in shares) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("lifetime", ["", ", lifetime_epsilon: 2"])
def test_users_whose_reports_agree_have_the_error_of_the_noise(lifetime: str) -> None:
    text = f"""
study: s
attributes:
  drink:
    domain: {{categories: [tea, coffee, water]}}
    services: {{app: {{mechanism: grr, epsilon: 1{lifetime}}}}}
    estimates: {{shares: {{estimator: em}}}}
  minutes:
    domain: {{numeric: [0, 180]}}
    services: {{app: {{mechanism: stochastic_rounding, epsilon: 1}}}}
    estimates: {{mean: {{estimator: ivw}}}}
windows: {{size: 1h}}
"""
    study, bound = ldp.Study.from_yaml(text), 1 / np.tanh(0.5)
    tables = [
        {
            "attribute": [name] * 3,
            "user_id": ["ann", "bob", "cid"],
            "payload": [payload] * 3,
            "event_time": [START + hour * HOUR] * 3,
        }
        for hour in range(2)
        for name, payload in (("drink", hour), ("minutes", bound))
    ]
    found = by_number(ldp.difference(study, tables, windows=(TEN, ELEVEN)))
    p, q = np.e / (np.e + 2), 1 / (np.e + 2)
    squared = (found["drink", "app", "share of tea"].error * (p - q)) ** 2
    if lifetime:
        # Windows share the permanent answer. What they do not share is the noise of the instant step.
        life = np.exp(2)
        c = (life * np.e + np.e - 2) / (life - np.e)
        support = np.array([life, 1]) / (life + 2)
        instant = (support * 2 * c + (1 - support) * (c + 1)) / (c + 2) ** 2
        assert 0.5 * instant.min() * 2 / 3 < squared <= instant.min() * 2 / 3
    else:
        assert squared == pytest.approx(q * (1 - q) * 2 / 3)
    # At an end of the range the variance is least: (B^2 - 1)/4 on [0, 1].
    mean = found["minutes", "app", "mean"]
    assert mean.error == pytest.approx(180 * np.sqrt((bound**2 - 1) / 4 * 2 / 3))
    assert not mean.beyond


def test_groups_are_compared_by_themselves() -> None:
    found = ldp.difference(GROUPED, sent(GROUPED, np.random.default_rng(4)), windows=(TEN, ELEVEN))
    assert {own.key[3:] for own in found} == {("north", False), (None, True)}
    rows = found.to_arrow().to_pylist()
    assert {(row["first_group"], row["second_group"], row["other_groups"]) for row in rows} == {
        ("north", "north", False),
        (None, None, True),
    }


@pytest.mark.parametrize(
    ("windows", "said"),
    [
        ((TEN, TEN), "the two windows are one"),
        ((TEN, "2026-11-20T11:30:00Z"), "did you mean '2026-11-20T11:00:00Z'"),
        ((TEN, "2026-11-20T12:00:00Z"), "no attribute has enough users in both windows"),
    ],
)
def test_what_cannot_be_compared_is_refused(windows: tuple[str, str], said: str) -> None:
    tables = sent(SAME, np.random.default_rng(5), 50)
    with pytest.raises(ValueError, match=said):
        ldp.difference(SAME, tables, windows=windows)


def test_studies_that_do_not_count_by_user_are_refused() -> None:
    hours = "windows: {size: 1h}\n"
    for end, said in ((hours + "duplicates: keep\n", "does not count by user"), ("", "has no windows")):
        study = ldp.Study.from_yaml(STUDY.replace(hours, end))
        with pytest.raises(ValueError, match=said):
            ldp.difference(study, [], windows=(TEN, ELEVEN))


def test_estimates_are_compared_by_window_and_group() -> None:
    estimates = ldp.estimate(GROUPED, sent(GROUPED, np.random.default_rng(6))).only(group="north")
    found = estimates.difference(windows=(TEN, ELEVEN))
    assert found.level == 0.95 and "for the people who reported" in found.about[0]
    own = by_number(found)["minutes", "mean", "mean"]
    assert own.low < own.second - own.first < own.high
    for given in ({}, {"windows": (TEN, ELEVEN), "groups": ("a", "b")}):
        with pytest.raises(ValueError, match="give two windows, or two groups"):
            estimates.difference(**given)
    with pytest.raises(ValueError, match="there is no estimate of group 'nroth'"):
        estimates.difference(groups=("north", "nroth"))


def test_estimates_on_one_side_only_are_named() -> None:
    tables = sent(GROUPED, np.random.default_rng(8), 100)
    del tables[len(tables) // 2 - 1]  # the films of the first window
    found = ldp.estimate(GROUPED, tables).only(group="north")
    for windows, side in (((TEN, ELEVEN), "second"), ((ELEVEN, TEN), "first")):
        about = found.difference(windows=windows).about
        assert about[1:] == (
            f"not compared: 1 estimate only in the {side} window: films films {ELEVEN} north",
        )


def test_sentences_name_a_few_estimates_and_escape_groups() -> None:
    keys = [EstimateKey("drink", "shares", None, group, False) for group in ("a\n", *"bcdefg")]
    rest = EstimateKey("drink", "shares", (START, START + HOUR), None, True)
    assert list(not_compared(Comparison((), (rest,), tuple(keys), (rest,), {}), "group")) == [
        f"not compared: 1 estimate only in the first group: drink shares {TEN} all other groups",
        r"not compared: 7 estimates only in the second group: drink shares a\n, drink shares b, "
        "drink shares c, drink shares d, drink shares e, ...",
        f"not compared: 1 estimate of other buckets or names in the second group: drink shares {TEN} all "
        "other groups",
    ]
