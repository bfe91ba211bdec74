"""What is claimed of what readers of estimates learn, of windows and of periods of the ledger."""

from collections.abc import Sequence

import numpy as np
import pytest

from ldpbeam.answers import periods, readers
from ldpbeam.answers.ledger_sentences import LIMITS
from ldpbeam.answers.readers import (
    everybody,
    of_period,
    of_plan,
    of_window,
    plan_sentences,
)
from ldpbeam.memoised import steps_of
from ldpbeam.over_time.amplification import amplified_epsilon, composed, together
from ldpbeam.schemas.outputs.records import Guarantee, LedgerEntry
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.spent import Line, PeriodSpent
from ldpbeam.study import Study
from ldpbeam.times import rfc3339

HOUR = 3_600_000
SMALL = (
    "study: s\nattributes:\n  x: {domain: {categories: 4}, services: {a: {mechanism: grr, epsilon: 1.0%s}}}\n"
)
HOURS = "windows: {size: 1h}\nledger: {period: 1d}\n"


def ledger_of_hours(study: Study, *users: int) -> list[LedgerEntry]:
    """The ledger of a run over as many hours from 1970 on, with a number of users in each."""
    mechanism = study.attribute("x").versions[0].mechanism
    claims = [of_window(study, [mechanism], n) for n in users]
    return [
        LedgerEntry("x", None, rfc3339(hour * HOUR), rfc3339((hour + 1) * HOUR), (), readers=claim)
        for hour, claim in enumerate(claims)
    ]


def test_readers_of_a_window_learn_what_amplification_says() -> None:
    study = parse_study(SMALL % "")
    claim = everybody(study, "x", 1_234)
    assert claim is not None
    # Users are rounded down to two digits, and delta is that of as many rounded up.
    assert claim.delta == 1e-6
    mechanism = study.attribute("x").versions[0].mechanism
    assert claim.epsilon == amplified_epsilon(1e-6, *together([mechanism]), 1_200)
    assert plan_said(study, 1_234) == [
        "Readers of the estimates of 'x', who see no report, learn of a user at most epsilon "
        f"{claim.epsilon:.3g} and delta 1e-06.",
        LIMITS,
    ]


def plan_said(study: Study, users: int) -> list[str]:
    return list(plan_sentences(study, {"x": everybody(study, "x", users)}))


def test_windows_of_fresh_noise_compose_and_their_deltas_stay_small() -> None:
    study = parse_study(SMALL % "" + HOURS.replace("1d", "30d"))
    entries = ledger_of_hours(study, *[5_000] * 720)
    period = of_period(study, [entries], 0)
    (window,) = {entry.readers for entry in entries}
    assert window is not None
    assert period is not None
    assert window.delta == pytest.approx(1e-6 / 1_440)
    assert (period.epsilon, period.delta) == composed([(window.epsilon, window.delta)] * 720, 5e-7)
    assert window.epsilon < period.epsilon < 720 * window.epsilon
    assert period.delta == pytest.approx(1e-6)
    # They are no hours of the next period, and a plan of every hour says the same.
    assert of_period(study, [entries], 720 * HOUR) is None
    assert of_plan(study, {"x": window}) == period
    # The same window of a second run is a further publication.
    again = of_period(study, [entries, entries[:1]], 0)
    assert again is not None
    assert again.epsilon > period.epsilon


def test_of_groups_the_smallest_says_what_is_claimed() -> None:
    study = parse_study(SMALL % "" + HOURS)
    (few, many) = (ledger_of_hours(study, users)[0] for users in (50, 5_000))
    assert of_period(study, [[few, many]], 0) == of_period(study, [[few]], 0)


def test_a_user_may_be_in_as_many_groups_of_a_window_as_there_are_services() -> None:
    two = SMALL.replace("{a: {", "{b: {mechanism: grr, epsilon: 1}, a: {") % ""
    ledger = "ledger: {period: 1d, cap: 60}\n"
    one, several = (parse_study(two + more + ledger) for more in ("", "groups: {field: g}\n"))
    ((in_one,), (in_each,)) = (ledger_of_hours(study, 5_000) for study in (one, several))
    assert of_period(one, [[in_one]], 0) == in_one.readers
    assert in_each.readers is not None
    both = [(in_each.readers.epsilon, in_each.readers.delta)] * 2
    claim = of_period(several, [[in_each]], 0)
    assert claim is not None
    assert (claim.epsilon, claim.delta) == composed(both, 2 * in_each.readers.delta)
    assert in_each.readers.epsilon < claim.epsilon <= 2 * in_each.readers.epsilon


def test_a_period_is_computed_from_what_was_published_in_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    study = parse_study(SMALL % "" + HOURS)
    runs = [ledger_of_hours(study, *[5_000] * 72), ledger_of_hours(study, *[500] * 30)]
    # A client that writes false times makes periods in which nothing was published.
    line = Line(np.ones(1), np.ones(1, np.int64))
    totals = {24 * HOUR * day: PeriodSpent(line, line, 0.0, 1) for day in range(-5, 50)}
    wanted = [of_period(study, runs, start) for start in totals]
    gone_through = 0

    def counting(study: Study, runs: Sequence[Sequence[LedgerEntry]], start: int) -> Guarantee | None:
        nonlocal gone_through
        gone_through += sum(map(len, runs))
        return of_period(study, runs, start)

    monkeypatch.setattr(readers, "of_period", counting)
    entries = periods.entries_of(study, totals, runs)
    assert gone_through == 72 + 30
    # Readers learn no more than the reports of the user who spent most, whose epsilon is 1.
    assert [entry.readers and entry.readers.epsilon for entry in entries] == [
        claim and min(claim.epsilon, 1.0) for claim in wanted
    ]
    assert sum(claim is not None for claim in wanted) == 3


def test_of_a_panel_only_one_window_in_a_period_of_it_counts() -> None:
    study = parse_study(SMALL % "" + HOURS + "panel: {windows: 24}\n")
    entries = ledger_of_hours(study, *[5_000] * 24)
    assert of_period(study, [entries], 0) == entries[0].readers


def test_windows_of_remembered_noise_are_one_report_with_its_loss_changes_included() -> None:
    study = parse_study(SMALL % ", lifetime_epsilon: 2.0" + HOURS)
    lifetime = study.attribute("x").versions[0].lifetime
    assert lifetime is not None
    claim = of_period(study, [ledger_of_hours(study, 5_000, 5_000, 5_000)], 0)
    assert claim == Guarantee(3 * steps_of(lifetime).loss, 0.0)
    one = ledger_of_hours(study, 5_000)
    assert of_period(study, [one], 0) == one[0].readers


@pytest.mark.parametrize("windows", ["{size: 1h, period: 30m}", "{size: 1h, joined: 1d}"])
def test_nothing_is_claimed_of_windows_that_share_reports(windows: str) -> None:
    study = parse_study(SMALL % "" + HOURS.replace("{size: 1h}", windows))
    assert of_period(study, [ledger_of_hours(study, 5_000, 5_000)], 0) is None


def test_nothing_is_claimed_of_noise_with_a_delta() -> None:
    service = "{mechanism: gaussian, epsilon: 1, delta: 1.0e-6}"
    text = f"study: s\nattributes: {{x: {{domain: {{numeric: [0, 1]}}, services: {{a: {service}}}}}}}\n"
    (sentence,) = plan_said(parse_study(text), 1_000)
    assert sentence.endswith("of 'x': nothing beyond the epsilon of the reports is claimed.")
