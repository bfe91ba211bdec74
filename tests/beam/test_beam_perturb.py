"""``values | Perturb(study)``, and then ``Estimate``."""

from __future__ import annotations

import uuid

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import TimestampedValue

import ldpbeam as ldp

#: At epsilon 20 one report in a hundred million is not the truth.
STUDY = """\
study: drinks
attributes:
  drink:
    domain: {categories: [tea, coffee, water]}
    services: {shop: {mechanism: grr, epsilon: 20.0}}
    estimates: {shares: {estimator: norm_sub}}
windows: {size: 1h}
groups: {field: town}
"""
DRINKS = ["tea"] * 50 + ["water"] * 30 + ["coffee"] * 20
TEN = "2026-11-20T10:00:00Z"


def test_values_become_reports_and_are_estimated() -> None:
    people = [
        {"drink": drink, "who": f"user-{number}", "at": TEN, "town": "north", "report_id": f"r{number}"}
        for number, drink in enumerate(DRINKS)
    ]
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        perturb = ldp.beam.Perturb(STUDY, value="drink", user_id="who", event_time="at")
        reports = pipeline | beam.Create(people) | beam.Map(lambda person: beam.Row(**person)) | perturb
        assert_that(
            reports,
            equal_to(
                [
                    {
                        "user_id": person["who"], "attribute": "drink", "service": "shop", "event_time": TEN,
                        "town": "north", "report_id": person["report_id"],
                        "payload": ("tea", "coffee", "water").index(person["drink"]),
                    }
                    for person in people
                ]
            ),
        )  # fmt: skip
        shares = (reports | ldp.beam.Estimate(STUDY)).shares | beam.Map(lambda row: (row.label, row.group))
        assert_that(shares, equal_to([(name, "north") for name in ("tea", "coffee", "water")]), "shares")


def test_times_are_those_of_elements_and_ids_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ldpbeam.beam.perturb.GATHERED_VALUES", 7)

    def check(reports: list[tuple[dict[str, object], float]]) -> None:
        assert len({uuid.UUID(str(report["user_id"])) for report, _ in reports}) == 100
        assert {report["event_time"] for report, _ in reports} == {TEN}
        assert {time for _, time in reports} == {1_795_168_800}

    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        values = pipeline | beam.Create([{"value": drink, "town": None} for drink in DRINKS])
        timed = values | beam.Map(lambda value: TimestampedValue(value, 1_795_168_800))
        reports = timed | ldp.beam.Perturb(STUDY, event_time=None)
        stamped = reports | beam.Map(lambda report, time=beam.DoFn.TimestampParam: (report, float(time)))
        assert_that(stamped, check)


def test_reports_of_nobody_have_no_id() -> None:
    people = [{"value": drink, "user_id": f"user-{n}", "town": "north"} for n, drink in enumerate(DRINKS)]
    study = f"{STUDY}users: none\n"
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        timed = pipeline | beam.Create(people) | beam.Map(lambda one: TimestampedValue(one, 1_795_168_800))
        reports = timed | ldp.beam.Perturb(study, event_time=None)
        names = reports | beam.Map(lambda report: "user_id" in report)
        assert_that(names, equal_to([False] * len(people)))
        found = (reports | ldp.beam.Estimate(study)).estimates | beam.Map(
            lambda row: (row.reports, row.users)
        )
        assert_that(found, equal_to([(len(people), None)]), "estimates")
    for transform in (ldp.beam.Estimate, ldp.beam.Statistics):
        with pytest.raises(ValueError, match="bad records are kept as they came"):
            transform(study, keep_bad_records=True)
    with pytest.raises(ValueError, match="bad records are kept as they came"):
        ldp.beam.ReadReports(study, "nothing*", keep_bad_records=True)


@pytest.mark.parametrize("missing", ["value", "town"])
def test_an_element_without_a_value_or_without_the_group_field_ends_the_pipeline(missing: str) -> None:
    whole = {"value": DRINKS[0], "town": "here", "event_time": TEN}
    part = {name: whole[name] for name in whole if name != missing}
    with (
        pytest.raises(Exception, match=f"an element has no field '{missing}': give it to all of them"),
        beam.Pipeline(runner=FnApiRunner()) as pipeline,
    ):
        _ = pipeline | beam.Create([whole, part]) | ldp.beam.Perturb(STUDY)


def test_mistakes_are_told(small_text: str) -> None:
    with pytest.raises(ValueError, match="the study has several services: name one with service="):
        ldp.beam.Perturb(small_text)
    with pytest.raises(ValueError, match="no field tells versions of 'a' apart"):
        ldp.beam.Perturb(small_text, "a", version="2")
    with (
        pytest.raises(Exception, match=r"value \[0\] of 'x' lies outside the domain"),
        beam.Pipeline(runner=FnApiRunner()) as pipeline,
    ):
        _ = pipeline | beam.Create([{"value": 2.0}]) | ldp.beam.Perturb(small_text, "a")


def test_clients_that_remember_their_noise_are_refused_because_there_are_no_keys() -> None:
    described = {"mechanism": "grr", "epsilon": 1, "lifetime_epsilon": 2}
    study = {
        "study": "s",
        "attributes": {"x": {"domain": {"categories": ["a", "b"]}, "services": {"app": described}}},
    }
    with pytest.raises(ValueError, match="Perturb has no keys of devices"):
        ldp.beam.Perturb(study)


def test_with_a_panel_those_whose_turn_it_is_report() -> None:
    study = f"{STUDY}panel: {{windows: 24}}\n"
    hours = [f"2026-11-20T{hour:02}:30:00Z" for hour in range(24)]
    day = [
        {"value": "tea", "user_id": user, "event_time": hour, "town": "north"}
        for user in ("ann", "bob")
        for hour in hours
    ]
    client = ldp.Client(ldp.Study.from_yaml(study), "drink", "shop")
    expected = [
        (person["user_id"], person["event_time"])
        for person in day
        if client.in_turn([person["user_id"]], person["event_time"])[0]
    ]
    assert len(expected) == 2
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        reports = pipeline | beam.Create(day) | ldp.beam.Perturb(study)
        sent = reports | beam.Map(lambda report: (report["user_id"], report["event_time"]))
        assert_that(sent, equal_to(expected))
