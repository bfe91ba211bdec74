"""Reports of a client: values in natural units and names, checked before anything is drawn."""

from __future__ import annotations

import itertools
import json
from collections import Counter, namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import ldpbeam as ldp
from ldpbeam.domains import KeyValuePairs

TEXT = """\
study: mixed
attributes:
  minutes:
    domain: {numeric: [0, 180]}
    services: {maps: {mechanism: square_wave, epsilon: 1.0}}
    estimates: {spread: {estimator: ems}}
  drink:
    domain: {categories: [tea, coffee, water]}
    services: {grr: {mechanism: grr, epsilon: 1.0}, olh: {mechanism: olh, epsilon: 1.0}}
    estimates: {shares: {estimator: norm_sub}}
  rating:
    domain: {keys: [jaws, alien], values: [1, 5]}
    services:
      slots: {mechanism: pckv_ue, epsilon: 2.0, padding: 2}
      second: {mechanism: privkvm, epsilon: 2.0, round: 2}
      first: {mechanism: privkvm, epsilon: 2.0, round: 1}
    estimates: {pairs: {estimator: key_value, services: [slots]}}
  pulse:
    domain: {coordinates: [day, night], values: [40, 180]}
    services: {watch: {mechanism: piecewise, epsilon: 1.0}}
    estimates: {mean: {estimator: ivw}}
"""
STUDY = ldp.Study.from_yaml(TEXT)
GROUPED = ldp.Study.from_yaml(f"{TEXT}groups: {{field: region}}\n")
TIMED = ldp.Study.from_yaml("""\
study: timed
attributes:
  minutes:
    domain: {numeric: [0, 180]}
    services:
      old_and_new:
        mechanism: square_wave
        versions:
          first: {epsilon: 1.0, until: "2026-01-01T00:00:00Z"}
          second: {epsilon: 2.0, since: "2026-01-01T00:00:00Z"}
      apps:
        version_field: app
        mechanism: square_wave
        versions: {blue: {epsilon: 1.0}, green: {epsilon: 3.0, values: [lime, leaf]}}
    estimates: {spread: {estimator: ems}}
windows: {size: 1h}
""")


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def drawn(attribute: str, service: str, values: Any) -> list[Any]:
    """What the mechanism itself sends for values on its own scale, from the same draws."""
    study = STUDY.attribute(attribute)
    mechanism = study.versions[study.versions_of([service])[0]].mechanism
    payloads = mechanism.perturb(values, rng())
    return payloads.tolist() if payloads.dtype.kind != "V" else [one.tobytes() for one in payloads]


@pytest.mark.parametrize(
    ("attribute", "service", "natural", "own"),
    [
        ("minutes", "maps", [0, 45.0, 180], np.array([0.0, 0.25, 1.0])),
        ("drink", "grr", ["water", "tea", "coffee"], np.array([2, 0, 1])),
        ("drink", "olh", ["water", "tea"], np.array([2, 0])),
        (
            "rating",
            "slots",
            [{"alien": 5, "jaws": 2}, {}],
            KeyValuePairs(np.array([0, 2, 2]), np.array([0, 1]), np.array([0.25, 1.0])),
        ),
        ("pulse", "watch", [[40, 180], [110, 75]], np.array([[0.0, 1.0], [0.5, 0.25]])),
        *(
            (
                "pulse", "watch", of({"night": [180, 75], "day": [40, 110]}),
                np.array([[0.0, 1.0], [0.5, 0.25]]),
            )
            for of in (
                dict, pd.DataFrame, pl.DataFrame, pa.table, lambda columns: pa.table(columns).to_batches()[0],
                lambda columns: pa.table(columns).to_pylist(),
                lambda columns: list(pd.DataFrame(columns).itertuples(index=False)),
                lambda columns: namedtuple("Pulse", columns)(**columns),
                lambda columns: [row for _, row in pd.DataFrame(columns).iterrows()],
            )
        ),
    ],
)  # fmt: skip
def test_natural_values_are_perturbed_as_the_mechanism_does(
    attribute: str, service: str, natural: Any, own: Any
) -> None:
    people = len(own)
    table = ldp.Client(STUDY, attribute, service, rng=rng()).reports(natural, ["a", "b", "c"][:people])
    assert table.column("payload").to_pylist() == drawn(attribute, service, own)
    assert set(table.column("attribute").to_pylist()) == {attribute}
    assert set(table.column("service").to_pylist()) == {service}


class Never:
    """Numbers that are never drawn."""

    def random(self, size: int) -> Any:
        raise AssertionError("drawn")


@pytest.mark.parametrize(
    ("attribute", "service", "value", "sentence"),
    [
        ("minutes", "maps", 250, r"value \[0\] of 'minutes' lies outside the domain \[0, 180\].*clip=True"),
        ("minutes", "maps", float("nan"), "'minutes' is nan, not a number: leave out people without a value"),
        ("minutes", "maps", None, "is NoneType, not a number|is nan, not a number"),
        ("minutes", "maps", "45", "is a number, found str: give numbers"),
        ("drink", "grr", "cofee", "is str that is no category of the study; the categories are: "),
        ("drink", "grr", None, r"value \[0\] of 'drink' is missing"),
        ("rating", "slots", {"jaw": 3}, "is str that is no key of the study; the keys are: jaws"),
        ("rating", "slots", {"jaws": 9}, r"lies outside the domain \[1, 5\]"),
        ("rating", "slots", 3, "write a dict of keys and values"),
        ("pulse", "watch", [60], r"give \(people, 2\)"),
    ],
)
def test_nonsense_is_refused_with_a_sentence_before_anything_is_drawn(
    attribute: str, service: str, value: Any, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        ldp.Client(STUDY, attribute, service, rng=Never()).report(value, "u")


@pytest.mark.parametrize("of", [dict, pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"day": [60], "nigth": [50]}, "'pulse' has no coordinate 'night': give all of the study's"),
        ({"day": [60], "night": [50], "user": [1]}, "'pulse' have 'user' as well: give each coordinate of"),
    ],
)
def test_coordinates_of_other_names_are_refused(of: Any, columns: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        ldp.Client(STUDY, "pulse", "watch").reports(of(columns))


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        (pa.table([[60], [50], [70]], names=["day", "night", "day"]), "'day' as well"),
        (pd.DataFrame([[60, 50, 70]], columns=["day", "night", "day"]), "'day' as well"),
        ([{"day": 60, "night": 50}, {"day": 60}], "is nan, not a number"),
        ({"day": [60, 70], "night": [50]}, "are not lists of one length"),
        ({"day": 60, "night": 50}, "are not lists of one length: give each once per person"),
    ],
)
def test_coordinates_are_given_once_per_person(columns: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        ldp.Client(STUDY, "pulse", "watch").reports(columns)


@pytest.mark.parametrize(
    ("attribute", "values", "sentence"),
    [
        ("minutes", np.ones((5, 1)), r"'minutes' have the shape \(5, 1\): give one number each"),
        ("minutes", [[1], [2, 3]], "'minutes' are lists of different lengths"),
        ("minutes", 3.0, "'minutes' are of type float: give a list with one each"),
        ("minutes", [1, 10**400], r"value \[1\] of 'minutes' is an integer that is too large"),
        ("minutes", [np.int64(1), {}], r"value \[1\] of 'minutes' is dict, not a number"),
        ("drink", ["tea", 1], r"value \[1\] of 'drink' is int that is no category of the study"),
        ("drink", [["tea"]], r"value \[0\] of 'drink' is list that is no category of the study"),
        ("rating", [{"jaws": [1, 2]}], r"'rating' have the shape \(1, 2\): give one number each"),
    ],
)
def test_values_of_another_shape_or_type_are_refused(attribute: str, values: Any, sentence: str) -> None:
    service = next(iter(STUDY.attribute(attribute).services))
    with pytest.raises(ValueError, match=sentence):
        ldp.Client(STUDY, attribute, service).reports(values)


@pytest.mark.parametrize("group", [["north"], {"north": 1}, b"\xff"])
def test_a_group_that_is_no_text_is_refused_and_an_empty_one_is_none(group: Any) -> None:
    client = ldp.Client(GROUPED, "minutes", "maps")
    with pytest.raises(ValueError, match=r"group 0 is .*: give a text, which is empty for no group"):
        client.report(1, "u", group=group)
    assert client.reports([1, 2], groups=["", None]).column("region").null_count == 2
    assert "region" not in client.report(1, "u", group="")


def test_a_study_with_groups_needs_them_and_another_refuses_them() -> None:
    client = ldp.Client(GROUPED, "minutes", "maps", rng=Never())
    for reports in (lambda: client.report(1, "u"), lambda: client.reports([1, 2], ["u", "v"])):
        with pytest.raises(ValueError, match="has groups, by the field 'region' of reports: give each"):
            reports()
    with pytest.raises(ValueError, match="the study has no groups: leave groups out"):
        ldp.Client(STUDY, "minutes", "maps", rng=Never()).report(1, "u", group="north")


def test_values_outside_are_moved_to_the_ends_if_asked() -> None:
    clipping = ldp.Client(STUDY, "minutes", "maps", clip=True, rng=rng())
    exact = ldp.Client(STUDY, "minutes", "maps", rng=rng())
    ids = ["a", "b"]
    assert clipping.reports([-5, 1e9], ids).equals(exact.reports([0, 180], ids))


def test_a_report_is_a_record_of_json_lines() -> None:
    report = ldp.Client(GROUPED, "minutes", "maps").report(45, "ann", group="north", report_id="r1")
    assert list(report) == ["user_id", "attribute", "service", "region", "report_id", "payload"]
    assert json.loads(json.dumps(report)) == report
    assert isinstance(report["payload"], float)


def test_without_a_user_id_every_report_has_a_random_one() -> None:
    client = ldp.Client(STUDY, "minutes", "maps")
    ids = client.reports(np.full(1000, 45.0)).column("user_id")
    assert len(set(ids.to_pylist())) == 1000
    assert {len(own) for own in ids.to_pylist()} == {16}
    one, other = client.report(45), client.report(45)
    assert one["user_id"] != other["user_id"]
    assert len(one["user_id"]) == 36


NEW_YEAR = "2026-01-01T00:00:00Z"
VERSIONS = f"versions: {{old: {{epsilon: 1, until: '{NEW_YEAR}'}}, new: {{epsilon: 2, since: '{NEW_YEAR}'}}}}"


@pytest.mark.parametrize(
    "rest",
    [
        "ledger: {period: 30d}",
        f"  y: {{domain: {{categories: 3}}, services: {{app: {{mechanism: grr, {VERSIONS}}}}}}}",
    ],
    ids=["ledger", "versions of another attribute"],
)
def test_reports_of_clients_have_the_times_without_which_they_would_be_dead_letters(rest: str) -> None:
    text = (
        "study: s\nattributes:\n  x: {domain: {categories: 3}, services: {app: {mechanism: grr, epsilon: 1}}}"
    )
    study = ldp.Study.from_yaml(f"{text}\n{rest}\n")
    client = ldp.Client(study, "x", "app")
    with pytest.raises(ValueError, match="give when the values were observed"):
        client.reports([0, 1])
    found = ldp.estimate(study, client.reports([0, 1] * 50, event_times="2026-11-20T11:00:00Z"))
    assert (found.counts["used"], found.counts["dead_letters"]) == (100, 0)


def test_event_times_are_asked_for_where_the_study_looks_at_them() -> None:
    client = ldp.Client(TIMED, "minutes", "apps")
    with pytest.raises(ValueError, match="give when the values were observed"):
        client.report(45)
    with pytest.raises(ValueError, match="has no zone"):
        client.report(45, event_time="2026-11-20T10:00:00")
    with pytest.raises(ValueError, match=r"event time 1 is .*looks like seconds"):
        client.reports([1, 2], event_times=[1_763_632_800_000, 1_763_632_800])
    report = client.report(45, event_time="2026-11-20T11:00:00+01:00")
    assert report["event_time"] == "2026-11-20T10:00:00Z"


@pytest.mark.parametrize("one", [1_763_632_800_000, np.int64(1_763_632_800_000), 1.7636328e12])
def test_one_event_time_stands_for_all_rows(one: Any) -> None:
    client = ldp.Client(TIMED, "minutes", "apps", rng=rng())
    table = client.reports([1, 2], ["a", "b"], event_times=one)
    assert table.column("event_time").cast(pa.int64()).to_pylist() == [1_763_632_800_000] * 2


@pytest.mark.parametrize(
    ("time", "sentence"),
    [
        (1_763_632_800, "looks like seconds"),
        (10**13, "outside the years"),
        ("1985-01-01T00:00:00Z", "before 1990"),
        (True, "give times with a zone"),
        ("noon", "give times with a zone"),
        (np.datetime64("2025-11-20"), "give times with a zone"),
    ],
)
def test_one_event_time_is_checked_as_a_list_of_it_is(time: Any, sentence: str) -> None:
    client = ldp.Client(TIMED, "minutes", "apps")
    for given in (time, [time]):
        with pytest.raises(ValueError, match=sentence):
            client.reports([1], event_times=given)
    with pytest.raises(ValueError, match="event time 1 is 5"):
        client.reports([1, 2], event_times=pd.Series([1_763_632_800_000, 5], index=["a", "b"]))


def test_a_version_is_told_by_its_field() -> None:
    time = "2026-11-20T10:00:00Z"
    assert ldp.Client(TIMED, "minutes", "apps").report(45, event_time=time)["app"] == "blue"
    green = ldp.Client(TIMED, "minutes", "apps", version="green").report(45, event_time=time)
    assert green["app"] == "lime"
    with pytest.raises(ValueError, match="version 'red' is not in the study; there are: blue, green"):
        ldp.Client(TIMED, "minutes", "apps", version="red")


def test_a_version_is_told_by_the_event_time() -> None:
    client = ldp.Client(TIMED, "minutes", "old_and_new", rng=rng())
    times = pa.array(["2025-12-31T23:00:00Z", "2026-01-01T00:00:00Z"])
    payloads = client.reports([90.0, 90.0], ["a", "b"], event_times=times).column("payload").to_pylist()
    first, second = (v.mechanism for v in TIMED.attribute("minutes").versions[:2])
    source = rng()
    assert payloads == [*first.perturb(np.array([0.5]), source), *second.perturb(np.array([0.5]), source)]


def test_a_later_round_of_privkvm_needs_means() -> None:
    with pytest.raises(ValueError, match="round 2 of privkvm needs the means of the round before"):
        ldp.Client(STUDY, "rating", "second")
    with pytest.raises(ValueError, match="no mean for the key 'alien'"):
        ldp.Client(STUDY, "rating", "second", means={"jaws": 3})
    client = ldp.Client(STUDY, "rating", "second", means={"jaws": 3, "alien": 4}, rng=rng())
    assert len(client.reports([{"jaws": 5}] * 3)) == 3


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"attribute": "minuts"}, "attribute 'minuts' is not in the study; there are: minutes"),
        ({"service": "map"}, "service 'map' is not in the study; there are: maps"),
        ({"version": "x"}, "no field tells versions of 'maps' apart"),
        ({"means": {}}, "leave them out"),
    ],
)
def test_a_client_of_something_that_is_not_in_the_study_is_refused(given: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        ldp.Client(STUDY, **{"attribute": "minutes", "service": "maps", **given})


def test_columns_of_other_lengths_are_refused() -> None:
    client = ldp.Client(STUDY, "minutes", "maps")
    with pytest.raises(ValueError, match="1 user_ids for 2 values"):
        client.reports([1, 2], ["a"])
    with pytest.raises(ValueError, match="user id 1 is missing"):
        client.reports([1, 2], ["a", None])
    with pytest.raises(ValueError, match="user_ids is one text for 2 values"):
        client.reports([1, 2], "ab")
    for ids in (["a", 1], 5):
        with pytest.raises(ValueError, match="user_ids are not values of one type: give a list"):
            client.reports([1, 2], ids)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"user_id": "é" * 129}, "a user id has at most 256 bytes; one has 258"),
        ({"user_id": "u", "report_id": "i" * 257}, "a report id has at most 256 bytes; one has 257"),
        ({"user_id": "u", "group": "g" * 257}, "a group has at most 256 bytes; one has 257"),
    ],
)
def test_texts_that_readers_refuse_are_refused(given: dict[str, str], what: str) -> None:
    client = ldp.Client(GROUPED if "group" in given else STUDY, "minutes", "maps")
    client.report(1, **{name: text.encode()[:256].decode("utf-8", "ignore") for name, text in given.items()})
    with pytest.raises(ValueError, match=what):
        client.report(1, **given)


@pytest.mark.parametrize("given", [{"user_ids": ["\udc80"]}, {"report_ids": ["\udc80"]}])
def test_text_that_utf_8_cannot_write_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="texts that UTF-8 can write"):
        ldp.Client(DRINKS, "drink", "app").reports(["tea"], **given)


def test_categories_are_taken_from_categories_of_polars_and_others_are_refused() -> None:
    client = ldp.Client(DRINKS, "drink", "app")
    assert client.reports(pl.Series(["tea", "water"], dtype=pl.Categorical)).num_rows == 2
    with pytest.raises(ValueError, match="that is no category"):
        client.reports(["\udc80"])


@pytest.mark.parametrize("mechanism", ["grr", "olh"])
def test_candidates_are_given_as_places_and_a_name_is_refused(mechanism: str) -> None:
    study = ldp.Study.from_yaml(
        "study: s\nusers: none\nattributes: {x: {domain: {candidates: names.csv, places: 3}, "
        f"services: {{a: {{mechanism: {mechanism}, epsilon: 2}}}}}}}}"
    )
    assert ldp.Client(study, "x", "a").reports(["0", "2"]).num_rows == 2
    with pytest.raises(ValueError, match=r"look up the place of a name in their window's table\) are: 0, 1"):
        ldp.Client(study, "x", "a").reports(["snow"])


DRINKS = ldp.Study.from_dict(
    study="drinks",
    attributes={
        "drink": {
            "domain": {"categories": ["tea", "water"]},
            "services": {"app": {"mechanism": "grr", "epsilon": 1}},
            "estimates": {"shares": {"estimator": "auto"}},
        }
    },
)


#: What no error may repeat, in forms that a program may give by mistake.
SECRET = "4242424242"
FORMS = [
    SECRET, int(SECRET), -int(SECRET) - 0.5, SECRET.encode(), [SECRET], {SECRET: 1}, {"jaws": SECRET},
    {"jaws": int(SECRET)}, np.datetime64(int(SECRET), "ms"), np.array([int(SECRET)]), SECRET * 100,
    f"{SECRET}\udc80", 10**400 + int(SECRET),
]  # fmt: skip


def test_no_error_repeats_a_value_an_id_a_group_or_a_key() -> None:
    grouped, remembering = (ldp.Study.from_yaml(text) for text in (
        f"{TEXT}groups: {{field: region}}\n",
        TEXT.replace("grr, epsilon: 1.0", "grr, epsilon: 1.0, lifetime_epsilon: 2.0"),
    ))  # fmt: skip
    drinks = ldp.Client(grouped, "drink", "grr").reports
    calls: list[Callable[[Any], Any]] = [
        ldp.Client(STUDY, "minutes", "maps").reports,
        ldp.Client(STUDY, "drink", "grr").reports,
        ldp.Client(STUDY, "rating", "slots").reports,
        lambda form: ldp.Client(remembering, "drink", "grr", device_key=form),
        *(
            lambda form, name=name: drinks(["tea"], **{"groups": ["north"], name: [form]})
            for name in ("user_ids", "groups", "report_ids")
        ),
    ]
    refused = Counter[int]()
    for (number, call), form in itertools.product(enumerate(calls), FORMS):
        for given in (form, [form], [form, None]):
            try:
                call(given)
            except (ValueError, TypeError) as error:
                refused[number] += 1
                assert "4242" not in str(error)
    assert min(refused[number] for number in range(len(calls))) > 5


def test_reports_of_nobody_have_no_id() -> None:
    study = ldp.Study.from_yaml(f"{TEXT}users: none\n")
    for attribute, service, value in (
        ("minutes", "maps", 42), ("drink", "olh", "tea"), ("rating", "slots", {"jaws": 4}),
        ("pulse", "watch", [60, 50]),
    ):  # fmt: skip
        client = ldp.Client(study, attribute, service)
        assert set(client.report(value)) == {"attribute", "service", "payload"}
        table = client.reports([value, value], report_ids=["a", "b"])
        assert table.column_names == ["attribute", "service", "report_id", "payload"]
        assert ldp.estimate(study, table).counts["used"] == 2
        with pytest.raises(ValueError, match=f"reports of '{attribute}' have no users .* leave user ids out"):
            client.report(value, "somebody")
