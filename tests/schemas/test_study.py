"""The study model: what it compiles to, what its fingerprints cover, and how it travels."""

from __future__ import annotations

import dataclasses
import math
import pickle
import re

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from ldpbeam import Attribute, Categories, Numeric
from ldpbeam.errors import StudyError
from ldpbeam.schemas.study.compile import compile_study
from ldpbeam.schemas.study.models import StudyModel
from ldpbeam.schemas.study.parts import Duration, Time
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.study import Study
from ldpbeam.times import format_duration, months_in

DURATIONS: TypeAdapter[int] = TypeAdapter(Duration)
TIMES: TypeAdapter[int] = TypeAdapter(Time)
TAXI = "taxi:   {mechanism: piecewise, epsilon: 0.5}"
BY_FIELD = (
    "taxi: {mechanism: piecewise, version_field: app, versions: {v1: {epsilon: 0.5}, v2: {epsilon: 1}}}"
)
BY_TIME = """taxi:
        mechanism: piecewise
        versions:
          v1: {epsilon: 0.5, until: 2026-11-20T10:00:00Z}
          v2: {epsilon: 1, since: 2026-11-20T10:00:00Z}"""


def minutes(text: str) -> Attribute:
    return parse_study(text).attribute("minutes")


def joined(services: str, buckets: int = 256) -> Attribute:
    """The attribute that a ULE over some services compiles to."""
    domain = f"domain: {{numeric: [0, 1]}}, buckets: {buckets}"
    estimates = "estimates: {together: {estimator: ule}}"
    return parse_study(
        f"{{study: s, attributes: {{x: {{{domain}, services: {{{services}}}, {estimates}}}}}}}"
    ).attribute("x")


def test_the_commute_study_compiles_as_it_stands(commute: Study) -> None:
    attribute = commute.attribute("minutes")
    assert commute.name == "commute"
    assert attribute.domain == Numeric(0.0, 180.0)
    assert (attribute.buckets, attribute.value_buckets) == (256, 256)
    assert attribute.services == attribute.joint_services == ("maps", "taxi", "survey")
    described = [(v.label, v.mechanism.name, v.mechanism.epsilon) for v in attribute.versions]
    assert described == [
        ("maps", "square_wave", 1.0),
        ("taxi", "piecewise", 0.5),
        ("survey", "stochastic_rounding", 0.8),
    ]
    assert attribute.joint_shape == (257, 257, 3)
    assert commute.windows is not None
    assert (commute.windows.size, commute.windows.allowed_lateness) == (3_600_000, 600_000)
    assert commute.group_users


def test_only_services_that_an_estimator_joins_are_joined(commute_text: str) -> None:
    two = minutes(commute_text.replace("{estimator: ule}", "{estimator: ule, services: [survey, maps]}"))
    assert two.joint_services == ("maps", "survey")
    none = minutes(commute_text.replace("{estimator: ule}", "{estimator: em}"))
    assert none.joint_services == ()


def test_numbers_may_have_an_exponent(commute_text: str) -> None:
    text = commute_text.replace("epsilon: 0.5", "epsilon: 5e-1").replace("ule}", "ule, tolerance: 1e-4}")
    study = parse_study(text)
    assert study.attribute("minutes").versions[1].mechanism.epsilon == 0.5
    assert study.attributes["minutes"].estimates["together"].options == {"tolerance": 1e-4}


def test_categories_are_names_or_how_many_there_are() -> None:
    def domain(text: str) -> object:
        services = "services: {a: {mechanism: grr, epsilon: 1}}, estimates: {t: {estimator: mle}}"
        study = f"{{study: s, attributes: {{x: {{domain: {{categories: {text}}}, {services}}}}}}}"
        return parse_study(study).attribute("x").domain

    assert domain("[car, bus]") == Categories(("car", "bus"))
    assert domain("3") == Categories(("0", "1", "2"))


def test_a_range_of_one_value_needs_a_step() -> None:
    text = (
        "study: s\nattributes: {age: {domain: {numeric: [0, 100]%s}, ranges: [[20, 20]], "
        "services: {a: {mechanism: square_wave, epsilon: 1}}}}\n"
    )
    assert parse_study(text % ", step: 1").attributes["age"].summary.ranges == ((20.0, 20.0),)
    for step in ("", ", step: 50"):
        with pytest.raises(StudyError, match="low < high, or is one value of a step"):
            parse_study(text % step)


@pytest.mark.parametrize("versions", [BY_FIELD, BY_TIME], ids=["by field", "by time"])
def test_versions_are_channels_of_their_own_and_change_the_fingerprint(
    commute_text: str, versions: str
) -> None:
    plain, versioned = minutes(commute_text), minutes(commute_text.replace(TAXI, versions))
    assert [v.label for v in versioned.versions] == ["maps", "taxi@v1", "taxi@v2", "survey"]
    assert [v.mechanism.epsilon for v in versioned.versions] == [1.0, 0.5, 1.0, 0.8]
    assert versioned.services == ("maps", "taxi", "survey")
    resolution = versioned.joint_buckets
    assert versioned.joint_shape == (1 + resolution, 1 + 2 * resolution, 3)
    assert versioned.fingerprint != plain.fingerprint


def test_a_version_may_end_where_the_epoch_starts(commute_text: str) -> None:
    versions = BY_TIME.replace("2026-11-20T10:00:00Z", "1970-01-01T00:00:00Z")
    assert len(minutes(commute_text.replace(TAXI, versions)).versions) == 4


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("epsilon: 0.5", "epsilon: 0.6"),
        ("mechanism: piecewise", "mechanism: laplace"),
        ("[0, 180]", "[0, 181]"),
        ("buckets: 256", "buckets: 128"),
        ("buckets: 256", "buckets: 256\n    joint_buckets: 64"),
        ("taxi:", "cabs:"),
        ("minutes:", "hours:"),
    ],
)
def test_whatever_changes_a_channel_changes_the_attributes_fingerprint(
    commute_text: str, old: str, new: str
) -> None:
    changed = parse_study(commute_text.replace(old, new))
    (name,) = changed.attributes
    assert changed.attribute(name).fingerprint != minutes(commute_text).fingerprint
    assert changed.fingerprint != parse_study(commute_text).fingerprint


@pytest.mark.parametrize(
    ("windows", "intervals", "narrowest"),
    [
        ("", "", 10_000),
        ("windows: {size: 1h}\n", "", 10_000),
        ("windows: {size: 1h, early_reports: 500}\n", "", 15_000),
        ("windows: {size: 1h, early_reports: 500}\n", "intervals: {any_look: 200}\n", 200),
    ],
)
def test_intervals_for_every_look_are_narrowest_where_early_panes_let_it_be_expected(
    windows: str, intervals: str, narrowest: int
) -> None:
    study = parse_study(f"""\
study: s
attributes:
  x:
    domain: {{numeric: [0, 1]}}
    services: {{a: {{mechanism: piecewise, epsilon: 1}}}}
    estimates: {{mean: {{estimator: ivw}}}}
{windows}{intervals}""")
    wanted = study.described("x").estimates["mean"].intervals
    assert wanted is not None and wanted.any_look == narrowest


def test_a_comment_changes_no_fingerprint_and_an_estimates_name_only_the_studys(commute_text: str) -> None:
    plain = parse_study(commute_text)
    commented = parse_study("# another comment\n" + commute_text)
    renamed = parse_study(commute_text.replace("mean:", "average:"))
    assert commented.attribute("minutes").fingerprint == plain.attribute("minutes").fingerprint
    assert renamed.attribute("minutes").fingerprint == plain.attribute("minutes").fingerprint
    assert commented.fingerprint == plain.fingerprint != renamed.fingerprint
    assert re.fullmatch("[0-9a-f]{32}", plain.fingerprint)


def test_a_study_that_says_its_format_is_the_same_study(commute_text: str) -> None:
    assert parse_study(f"format: 1\n{commute_text}") == parse_study(commute_text)


@pytest.mark.parametrize("versions", [TAXI, BY_FIELD, BY_TIME], ids=["plain", "by field", "by time"])
def test_a_study_survives_pickling_and_its_models_survive_json(commute_text: str, versions: str) -> None:
    text = commute_text.replace(TAXI, versions)
    study = parse_study(text)
    pickled = pickle.loads(pickle.dumps(study))
    assert pickled == study
    assert pickled.attribute("minutes") == study.attribute("minutes")
    model = StudyModel.model_validate(yaml.safe_load(text))
    assert compile_study(StudyModel.model_validate_json(model.model_dump_json())) == study


@settings(derandomize=True, deadline=None, max_examples=200)
@given(milliseconds=st.integers(0, 10**13).filter(lambda length: not length or not months_in(length)))
def test_durations_round_trip(milliseconds: int) -> None:
    assert DURATIONS.validate_python(format_duration(milliseconds)) == milliseconds


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("90s", 90_000), ("1h", 3_600_000), (" 2 d ", 172_800_000), ("250ms", 250), ("1w", 604_800_000)],
)
def test_durations_are_whole_numbers_with_a_unit(text: str, milliseconds: int) -> None:
    assert DURATIONS.validate_python(text) == milliseconds


def test_durations_are_written_in_the_largest_unit_that_divides_them() -> None:
    assert [format_duration(n) for n in (90_000, 3_600_000, 172_800_000, 250)] == ["90s", "1h", "2d", "250ms"]


@pytest.mark.parametrize("text", ["1970-01-01T00:00:00Z", "2026-11-20T12:00:00.001+02:00"])
def test_a_time_is_epoch_milliseconds_whether_yaml_or_json_gave_it(text: str) -> None:
    expected = {"1970-01-01T00:00:00Z": 0, "2026-11-20T12:00:00.001+02:00": 1_795_168_800_001}[text]
    assert TIMES.validate_python(yaml.safe_load(text)) == expected
    assert TIMES.validate_python(text) == expected


@pytest.mark.parametrize("value", ["2026-11-20T10:00:00", "yesterday", 1.5, True, None])
def test_a_time_without_a_zone_is_refused(value: object) -> None:
    with pytest.raises(ValidationError):
        TIMES.validate_python(value)


@pytest.mark.parametrize(("name", "extra"), [("square_wave", 1), ("piecewise", 1), ("laplace", 3)])
@pytest.mark.parametrize(("services", "resolution"), [(1, 256), (2, 256), (3, 64)])
def test_the_default_joint_histogram_is_the_finest_of_at_most_2_to_the_20_cells(
    name: str, extra: int, services: int, resolution: int
) -> None:
    attribute = joined(", ".join(f"s{i}: {{mechanism: {name}, epsilon: 1}}" for i in range(services)))
    assert math.prod(attribute.joint_shape) <= 2**20
    assert attribute.joint_shape == (resolution + extra,) * services
    assert resolution == 256 or (2 * resolution + extra) ** services > 2**20


def test_more_services_have_as_many_report_buckets_as_their_information_needs() -> None:
    noisy = ", ".join(f"s{i}: {{mechanism: square_wave, epsilon: 1}}" for i in range(4))
    signs = ", ".join(f"r{i}: {{mechanism: stochastic_rounding, epsilon: 1}}" for i in range(4))
    assert joined(f"{noisy}, {signs}").joint_buckets == (192,) * 4 + (2,) * 4
    # Where the same resolution for all keeps enough, it stays, however many services there are.
    laplace = ", ".join(f"l{i}: {{mechanism: laplace, epsilon: 0.3}}" for i in range(4))
    assert joined(f"{laplace}, {signs}").joint_buckets == 4
    two = ", ".join(f"s{i}: {{mechanism: square_wave, epsilon: 1}}" for i in range(2))
    assert joined(f"{two}, r0: {{mechanism: stochastic_rounding, epsilon: 1}}").joint_buckets == 256
    # What is not joined has no resolution, and the fingerprint depends on each one.
    attribute = joined(f"{noisy}, {signs}")
    other = dataclasses.replace(attribute, joint_buckets=(191, *attribute.joint_buckets[1:]))
    assert other.fingerprint != attribute.fingerprint
    assert pickle.loads(pickle.dumps(attribute)).fingerprint == attribute.fingerprint


def test_versions_of_a_service_share_the_default_joint_histograms_cells() -> None:
    versions = "{a: {epsilon: 1}, b: {epsilon: 2}, c: {epsilon: 3}, d: {epsilon: 4}}"
    service = f"{{mechanism: piecewise, version_field: app, versions: {versions}}}"
    attribute = joined(f"s0: {service}, s1: {service}")
    assert attribute.joint_shape == (513, 513)


def test_the_default_joint_histogram_is_no_finer_than_the_buckets_and_a_given_one_stands(
    commute_text: str,
) -> None:
    assert joined("s: {mechanism: piecewise, epsilon: 1}", buckets=100).joint_shape == (65,)
    given = minutes(commute_text.replace("buckets: 256", "buckets: 256\n    joint_buckets: 32"))
    assert given.joint_shape == (33, 33, 3)


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ("", (0.95, False)),
        ("intervals: {}", (0.95, False)),
        ("intervals: {level: 0.9, simultaneous: true}", (0.9, True)),
        ("intervals: false", None),
    ],
)
def test_every_estimate_has_intervals_unless_the_study_says_otherwise(
    commute_text: str, told: str, found: tuple[float, bool] | None
) -> None:
    study = parse_study(f"{commute_text}\n{told}\n")
    wanted = [one.intervals for own in study.attributes.values() for one in own.estimates.values()]
    assert {one and (one.level, one.simultaneous) for one in wanted} == {found}
    schema = StudyModel.model_json_schema()["properties"]["intervals"]["anyOf"]
    assert {"const": False} in schema and {"type": "null"} not in schema


def test_a_study_says_how_many_may_lie(commute_text: str) -> None:
    for told, liars in (("1%", 0.01), ("0.05", 0.05), ("0", 0.0)):
        study = parse_study(f"{commute_text}\nintervals: {{liars: {told}}}\n")
        wanted = study.described("minutes").estimates["mean"].intervals
        assert wanted is not None and wanted.liars == liars
    named = parse_study(f"{commute_text}\nintervals: {{named_only: true}}\n").described("minutes").estimates
    assert named["mean"].intervals is not None and named["mean"].intervals.named_only
    joined = "windows: {size: 1h, joined: 2h}\n"
    with pytest.raises(
        StudyError, match=r"intervals\.liars: nothing says how many reports of joined windows"
    ):
        parse_study(f"{commute_text.split('windows:')[0]}\nintervals: {{liars: 1%}}\n{joined}")


def test_the_default_intervals_change_no_fingerprint_and_others_do(commute_text: str) -> None:
    told = ["", "intervals: {level: 0.95}", "intervals: false"]
    plain, same, none = (parse_study(f"{commute_text}\n{text}\n").fingerprint for text in told)
    assert plain == same != none


@pytest.mark.parametrize(
    "told", ["true", "{level: 1}", "{level: 95}", "{width: 3}", "0.95", "{liars: few%}", "{liars: 50%}"]
)
def test_intervals_that_cannot_be_are_refused_with_their_place(commute_text: str, told: str) -> None:
    with pytest.raises(StudyError, match="intervals"):
        parse_study(f"{commute_text}\nintervals: {told}\n")
