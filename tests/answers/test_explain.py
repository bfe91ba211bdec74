"""``ldpbeam explain``: plain sentences that say what the study says, and change with it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldpbeam import Attribute, Categories, ServiceVersion, build_mechanism, fit
from ldpbeam.answers.child import compute
from ldpbeam.answers.explain import explain as explain_study
from ldpbeam.fit import FALSE_ALARMS
from ldpbeam.intervals import computing
from ldpbeam.intervals.computing import StatisticIntervals
from ldpbeam.schemas.study.yaml_file import parse_study, read_study
from ldpbeam.statistics import Answers, tally

EXAMPLES = Path(__file__).parents[2] / "examples"


def explain(text: str) -> list[str]:
    """The sentences of a study. That the command numbers them: test_printing."""
    sentences = explain_study(parse_study(text))
    assert all(sentence.endswith(".") for sentence in sentences)
    return sentences


def test_every_service_epsilon_estimate_and_window_is_named(commute_text: str) -> None:
    said = explain(commute_text)
    services = {
        "maps": ("square_wave", "1"),
        "taxi": ("piecewise", "0.5"),
        "survey": ("stochastic_rounding", "0.8"),
    }
    for service, (mechanism, epsilon) in services.items():
        (sentence,) = [s for s in said if s.startswith(f"Service {service!r} ")]
        assert f"runs {mechanism} with epsilon {epsilon}: " in sentence
    for name, estimator in (("together", "ule"), ("maps_only", "ems"), ("mean", "ivw")):
        (sentence,) = [s for s in said if s.startswith(f"Estimate {name!r} ")]
        assert f"is {estimator} (" in sentence
    assert any("from maps." in s for s in said if s.startswith("Estimate 'maps_only'"))
    assert any("windows of 1h;" in s and "up to 10m late" in s for s in said)
    assert any("a number in [0, 180]" in s and "256 buckets" in s for s in said)
    assert any("spends epsilon 2.3 in all, per window;" in s for s in said)


def test_the_reports_a_service_sends_are_those_it_would_send(
    commute_text: str, simulate: Any, commute: Any
) -> None:
    said = explain(commute_text)
    for sent in simulate(commute, "minutes", [0, 90, 180] * 2000, seed=1):
        (sentence,) = [s for s in said if s.startswith(f"Service {sent.service!r} ")]
        ends = [float(n) for n in re.findall(r"-?\d+\.\d+", sentence.partition("a report is")[2])]
        # Extremes of 6,000 reports come within 1% of the range of its ends, and not beyond (but for digits).
        span = ends[1] - ends[0]
        assert ends[0] - 1e-5 <= sent.payloads.min() <= ends[0] + 0.01 * span
        assert ends[1] - 0.01 * span <= sent.payloads.max() <= ends[1] + 1e-5


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("epsilon: 0.5", "epsilon: 0.7", ["with epsilon 0.7:", "spends epsilon 2.5 in all"]),
        ("piecewise", "laplace", ["'taxi' of 'minutes' runs laplace with epsilon 0.5"]),
        ("size: 1h", "size: 1d, period: 6h", ["windows of 1d, one starting every 6h"]),
        ("size: 1h", "size: 1d, early_reports: 5000", ["an early estimate of a window", "5,000 more"]),
        ("windows:", "epsilon_cap: 2\nwindows:", ["how many users spent how much, and how many exceed 2"]),
        (
            "windows:",
            "ledger: {period: 30d, cap: 60}\nwindows:",
            [
                "adds up what each user spends in periods of 30d",
                "Any 30d that lie in two periods may hold twice",
            ],
        ),
        (
            "windows:",
            "panel: {windows: 24}\nwindows:",
            ["one window in 24, another one in each period of 1d"],
        ),
        (
            "windows:",
            "groups: {field: region, at_most: 7}\nwindows:",
            ["'region'", "The 7 groups with the most reports"],
        ),
        ("services: [maps]", "services: [maps, taxi]", ["from maps, taxi."]),
        ("{estimator: ule}", "{estimator: ule, smooth: false}", ["smooth False"]),
        ("buckets: 256", "buckets: 64", ["64 buckets"]),
        ("buckets: 256", "buckets: 256\n    joint_buckets: 16", ["17 x 17 x 3 = 867 cells"]),
        (
            "{mechanism: square_wave, epsilon: 1.0}",
            "{mechanism: square_wave, version_field: app, versions: "
            "{old: {epsilon: 1.0, values: ['1', '2']}, new: {epsilon: 2.0}}}",
            ["'maps@old'", "recognised by 'app' being 1 or 2", "'maps@new'", "recognised by 'app' being new"],
        ),
        (
            "{mechanism: square_wave, epsilon: 1.0}",
            "{mechanism: square_wave, versions: {old: {epsilon: 1.0, until: '2026-06-01T00:00:00Z'}, "
            "new: {epsilon: 2.0, since: '2026-06-01T00:00:00Z'}}}",
            ["an event time before 2026-06-01T00:00:00Z", "an event time from 2026-06-01T00:00:00Z on"],
        ),
    ],
    ids=lambda p: p if isinstance(p, str) and len(p) < 30 else "",
)
def test_a_study_that_changes_changes_what_is_said(
    old: str, new: str, words: list[str], commute_text: str
) -> None:
    before = "\n".join(explain(commute_text))
    after = explain(commute_text.replace(old, new, 1))
    for word in words:
        assert word not in before
        assert any(word in sentence for sentence in after), after


def test_studies_without_windows_lateness_or_joins_say_so(commute_text: str) -> None:
    said = explain(re.sub("windows:.*", "", commute_text))
    assert "There are no windows: all reports are estimated together." in said
    assert any("spends epsilon 2.3 in all;" in s for s in said), "and not a window"
    said = explain(commute_text.replace("allowed_lateness: 10m", "allowed_lateness: 0s"))
    assert not any("0w" in sentence for sentence in said), "nobody counts nothing in weeks"
    said = explain(commute_text.replace("{estimator: ule}", "{estimator: em}"))
    assert not any("joint histogram" in sentence for sentence in said)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("duplicates: keep", "Every report counts"),
        ("repeats: all", "Up to 1,000 reports of a user count per service and window"),
        ("repeats: all\nmost_reports: 5", "Up to 5 reports of a user count per service and window"),
    ],
)
def test_reports_that_are_not_compared_or_joined_are_said_to_count(
    line: str, words: str, commute_text: str
) -> None:
    unjoined = commute_text.replace("{estimator: ule}", "{estimator: em}")
    assert not any(words in sentence for sentence in explain(unjoined))
    assert any(words in sentence for sentence in explain(f"{unjoined}{line}\n"))


def test_of_the_versions_of_a_service_the_largest_epsilon_and_delta_are_spent(commute_text: str) -> None:
    versions = (
        "{mechanism: gaussian, version_field: app, versions: {old: {epsilon: 1.0, delta: 1.0e-6, values: [a]}"
        ", new: {epsilon: 0.5, delta: 2.0e-6, values: [b]}}}"
    )
    said = explain(commute_text.replace("{mechanism: square_wave, epsilon: 1.0}", versions))
    assert any("spends epsilon 2.3 and delta 2e-06 in all" in s for s in said)


def test_intervals_are_explained_with_the_methods_that_computed_them(
    commute_text: str, simulate: Any, commute: Any
) -> None:
    attribute = commute.attribute("minutes")
    users = np.arange(300)
    answers = [
        Answers(place, users, sent.payloads)
        for place, sent in enumerate(simulate(commute, "minutes", [30, 60, 90] * 100))
    ]
    statistic = tally(attribute, 300, answers)
    wanted = commute.attributes["minutes"].estimates["together"]
    assert wanted.intervals is not None
    asked = replace(wanted, estimator="ems")
    found = compute(StatisticIntervals(attribute, statistic), asked).intervals
    (sentence,) = [s for s in explain(commute_text) if "intervals" in s]
    assert "have 95% intervals" in sentence
    # Those of any look are of the same numbers.
    methods = {name: method for name, method in found.methods.items() if name != "any_look"}
    for name, method in methods.items():
        before = sentence.partition(f"({method})")[0].rpartition(")")[2]
        names = {"cdf": "the distribution function", "if_smooth": "value buckets"}
        assert names.get(name, name) in before
    wider = explain(f"{commute_text}intervals: {{level: 0.999, simultaneous: true}}\n")
    assert any("99.9% intervals, wide enough to hold all" in s for s in wider)
    assert "Estimates of 'minutes' have no intervals." in explain(f"{commute_text}intervals: false\n")


@pytest.mark.parametrize(
    ("example", "words"),
    [
        ("numbers", "; with discrete, if people are spread smoothly: posterior of a smooth density"),
        ("categories", "of the share of every category (unbiased shares"),
        ("privkvm", "; none with second, third, where in later rounds the sign of a"),
    ],
)
def test_intervals_depend_on_what_services_send(example: str, words: str) -> None:
    study = read_study(str(EXAMPLES / example / "study.yaml"))
    (name,) = study.attributes
    wanted = next(iter(study.attributes[name].estimates.values())).intervals
    assert words in computing.explain(study.attribute(name), wanted)


def test_the_tests_of_fit_are_explained(commute_text: str) -> None:
    said = explain(commute_text)
    assert any("reports of 'minutes' to maps, taxi, survey fit the mechanism" in s for s in said)
    assert any("a user id means the same person at any two of maps, taxi, survey" in s for s in said)
    assert any(f"at most {FALSE_ALARMS:.0%} of runs warn" in s for s in said)
    said = explain(commute_text.replace("{estimator: ule}", "{estimator: em}"))
    assert not any("means the same person" in s for s in said), "services that are not joined"
    names = Categories(tuple(map(str, range(3_000))))
    version = ServiceVersion("shop", "", build_mechanism("grr", names, 1.0))
    too_large = Attribute("product", names, 1, (version,))
    assert "Not tested: shop: its channel is too large to be fitted." in fit.explain(too_large)


@pytest.mark.parametrize("line", ["duplicates: keep", "repeats: all"])
def test_where_users_reports_are_not_brought_together_the_ledger_stays_empty(
    line: str, commute_text: str
) -> None:
    unjoined = f"{commute_text.replace('{estimator: ule}', '{estimator: em}')}{line}\n"
    (sentence,) = [s for s in explain(unjoined) if "the ledger" in s]
    assert f"the ledger stays empty, because {line} " in sentence
    (sentence,) = [s for s in explain(f"{unjoined}epsilon_cap: 2\n") if "the ledger" in s]
    assert "the ledger stays empty, and epsilon_cap 2 is not checked, because" in sentence


def test_a_promise_of_values_without_a_ledger_is_said_to_be_in_vain() -> None:
    text = (
        "study: s\nattributes:\n  x:\n    domain: {categories: 3}\n    services:\n      app: {mechanism: "
        "grr, epsilon: 1, lifetime_epsilon: 2, values_at_most: 2}\nwindows: {size: 1h}\n"
    )
    vain = "values_at_most of service 'app' of 'x' is for the ledger over periods"
    assert vain in " ".join(explain(text))
    assert vain not in " ".join(explain(f"{text}ledger: {{period: 30d}}\n"))


def test_categories_are_counted_and_one_attribute_is_not_attributes() -> None:
    said = explain(
        "study: s\nattributes:\n  colour:\n    domain: {categories: [red, green, blue]}\n"
        "    services: {shop: {mechanism: grr, epsilon: 1.0}}\n    estimates: {all: {estimator: mle}}\n"
    )
    assert said[0] == "Study 's' estimates 1 attribute: colour."
    assert "'colour' is one of 3 categories." in said
    assert any("the index of a category, 0 to 2" in sentence for sentence in said)
