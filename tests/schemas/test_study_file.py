"""A study file that is wrong: one message, with the place in the file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ldpbeam.errors import StudyError
from ldpbeam.schemas.study.yaml_file import parse_study, read_study

TAXI = "{mechanism: piecewise, epsilon: 0.5}"
ULE = "{estimator: ule}"
DOMAIN = "{numeric: [0, 180]}"
AT_TAXI = "8: attributes.minutes.services.taxi"
AT_MAPS = "7: attributes.minutes.services.maps"
AT_ULE = "11: attributes.minutes.estimates.together"
AT_EMS = "12: attributes.minutes.estimates.maps_only"
AT_BUCKETS = "5: attributes.minutes.buckets"
AT_DOMAIN = "4: attributes.minutes.domain"


def problem(text: str) -> str:
    with pytest.raises(StudyError) as caught:
        parse_study(text, "commute.yaml")
    return str(caught.value)


def assert_says(text: str, place: str, says: str) -> None:
    """One line that starts with the file, the line and the place."""
    message = problem(text)
    line, keys = place.split(": ")
    assert re.fullmatch(rf"commute\.yaml:{line}: {re.escape(in_words(keys))}: .+", message), message
    assert says in message


def in_words(keys: str) -> str:
    """Keys with points between them as messages say them, the innermost first."""
    named = re.sub(r"(^|\.)(attribute|service|version|estimate)s\.(?!\d)", r"\1\2 ", keys)
    words = [f"entry {int(key) + 1}" if key.isdigit() else key for key in named.split(".")]
    return " of ".join(reversed(["the name" if word == "[key]" else word for word in words]))


def versions(one: str, other: str, by: str = "") -> str:
    return (
        f"{{mechanism: piecewise, {by}versions: {{v1: {{epsilon: 1, {one}}}, v2: {{epsilon: 2, {other}}}}}}}"
    )


BY_APP = "version_field: app, "


#: What is changed in a good study, where that stands, and what is said of it.
MISTAKES = [
    # the format, before all that a later one may have
    ("study: commute", "study: commute\nformat: 2\nqqqqq: 1", "2: format", "this must be 1; a later version"),
    ("study: commute", "study: commute\nformat: '1'", "2: format", "update ldpbeam, found '1'"),
    # keys
    ("buckets:", "bucket:", "5: attributes.minutes.bucket", "unknown key; did you mean 'buckets'?"),
    ("windows:", "window:", "14: window", "unknown key; did you mean 'windows'?"),
    ("allowed_lateness", "alowed_latenes", "14: windows.alowed_latenes", "mean 'allowed_lateness'?"),
    ("study: commute", "study: commute\nqqqqq: 1", "2: qqqqq", "unknown key"),
    ("study: commute", "study: commute\nepsilon: 1", "2: epsilon", "it belongs to: service, version"),
    ("study: commute", "study: commute\nintervals: {buckets: 2}", "2: intervals.buckets", "to: attribute"),
    ("study: commute", "study: commute\npublish: {at_leat: 3}", "2: publish.at_leat", "mean 'at_least'?"),
    # names
    ("study: commute", "study: my commute", "1: study", "names have letters, digits, _ and -"),
    ("maps:   ", "'ma/ps': ", "7: attributes.minutes.services.ma/ps.[key]", "found 'ma/ps'"),
    # mechanisms
    ("square_wave", "square", AT_MAPS, "unknown mechanism 'square'; did you mean 'square_wave'?"),
    (TAXI, "{mechanism: grr, epsilon: 1}", AT_TAXI, "mechanism 'grr' is for categories"),
    (TAXI, "{mechanism: piecewise}", AT_TAXI, "it needs a mechanism and an epsilon"),
    (TAXI, "{mechanism: piecewise, epsilon: 1, wide: 2}", AT_TAXI, "has no option 'wide'; it takes none"),
    (TAXI, "piecewise", AT_TAXI, "write {mechanism: piecewise, epsilon: 1}, found 'piecewise'"),
    ("epsilon: 0.5", "epsilon: 0", f"{AT_TAXI}.epsilon", "above 0 and at most 20, found 0"),
    ("epsilon: 0.5", "epsilon: .nan", f"{AT_TAXI}.epsilon", "found nan"),
    ("epsilon: 0.5", "epsilon: '0.5'", f"{AT_TAXI}.epsilon", "a number; write 0.5, without quotes, found '0"),
    # estimators
    ("estimator: ems", "estimator: emz", AT_EMS, "unknown estimator 'emz'"),
    (ULE, "{services: [mops]}", AT_ULE, "unknown service 'mops'; there are: maps,"),
    ("[maps]", "[maps, maps]", f"{AT_EMS}.services", "found ['maps', 'maps']"),
    (ULE, "{estimator: norm_sub}", AT_ULE, "does not fit: service maps (square_wave) gives no unbiased"),
    (ULE, "{estimator: ule, steps: 3}", AT_ULE, "has no option 'steps'; it takes: smooth, tolerance,"),
    (ULE, "{estimator: ule, tolerance: 0}", AT_ULE, "'tolerance' is a number above 0, found 0"),
    (ULE, "{estimator: ule, max_iterations: 1.5}", AT_ULE, "is a whole number from 1, found 1.5"),
    (ULE, "{estimator: ule, smooth: often}", AT_ULE, "'smooth' is true or false, found 'often'"),
    ("study: commute", "study: commute\nduplicates: keep", AT_ULE.replace("11", "12"), "does not group"),
    # domains
    (DOMAIN, "{numeric: [180, 0]}", AT_DOMAIN, "needs low < high, found [180.0, 0.0]"),
    (DOMAIN, "{numeric: [0, .inf]}", f"{AT_DOMAIN}.numeric.1", "must be a finite number, found inf"),
    (DOMAIN, "{numeric: [0]}", f"{AT_DOMAIN}.numeric.1", "entry of the pair is missing"),
    (DOMAIN, "{numeric: [0, 1, 2]}", f"{AT_DOMAIN}.numeric", "a pair here, as in [0, 1], with points"),
    (DOMAIN, "[0, 180]", AT_DOMAIN, "write {numeric: [0, 180]}, found"),
    (DOMAIN, "[car, bus]", AT_DOMAIN, "write {categories: [car, bus]}, found"),
    (DOMAIN, "{categories: [car, bus, car]}", AT_DOMAIN, "are listed twice in the domain: car"),
    (DOMAIN, "{categories: [car]}", AT_DOMAIN, "two categories or more, found 1"),
    (DOMAIN, "{categories: car}", f"{AT_DOMAIN}.categories", "write a list of names, as in [tea, coffee]"),
    (DOMAIN, "{categories: 1}", f"{AT_DOMAIN}.categories", "greater than or equal to 2, found 1"),
    (DOMAIN, "{categories: [yes, car]}", f"{AT_DOMAIN}.categories.0", "write 'yes' in quotes"),
    (DOMAIN, "{candidates: a.csv}", AT_DOMAIN, "candidates: FILE and places: NUMBER go together"),
    (DOMAIN, "{candidates: a.csv, categories: 4}", AT_DOMAIN, "give one of numeric: [low, high], edges"),
    (DOMAIN, "{candidate: a.csv, places: 4}", f"{AT_DOMAIN}.candidate", "did you mean 'candidates'?"),
    (DOMAIN, "{candidates: a.csv, places: 1}", f"{AT_DOMAIN}.places", "than or equal to 2, found 1"),
    (DOMAIN, "{candidates: a.csv, places: 1000001}", f"{AT_DOMAIN}.places", "or equal to 1000000"),
    (DOMAIN, "{}", AT_DOMAIN, "give one of numeric: [low, high], edges: [...], categories"),
    (DOMAIN, "{coordinates: [a, b]}", AT_DOMAIN, "[low, high] goes with keys or coordinates, and they need"),
    (DOMAIN, "{keys: [a, b, a], values: [0, 5]}", AT_DOMAIN, "are listed twice in the domain: a"),
    (DOMAIN, "{coordinates: 1, values: [0, 5]}", f"{AT_DOMAIN}.coordinates", "or equal to 2, found"),
    # steps
    (DOMAIN, "{numeric: [0, 180], step: 0}", f"{AT_DOMAIN}.step", "greater than 0, found 0"),
    (DOMAIN, "{numeric: [0, 180], step: 7}", AT_DOMAIN, "step 7 does not divide the range [0, 180]"),
    (DOMAIN, "{numeric: [0, 180], step: 0.01}", AT_DOMAIN, "18,001 values of the range [0, 180]; there may"),
    (DOMAIN, "{categories: 3, step: 1}", AT_DOMAIN, "step is for numbers: it goes with numeric"),
    (DOMAIN, "{numeric: [0, 180], step: 1}", "3: attributes.minutes", "buckets must divide that"),
    # sizes
    ("buckets: 256", "buckets: 1", AT_BUCKETS, "greater than or equal to 2, found 1"),
    ("buckets: 256", "quantiles: [0.5, 1]", "5: attributes.minutes.quantiles.1", "less than 1, found 1"),
    ("buckets: 256", "ranges: [[5, .inf]]", "5: attributes.minutes.ranges.0.1", "finite number; write"),
    ("buckets: 256", "ranges: [[2, 1]]", "5: attributes.minutes.ranges.0", "a range needs low <= high"),
    ("buckets: 256", "top: 0", "5: attributes.minutes.top", "greater than or equal to 1, found 0"),
    ("study: commute", "study: commute\nepsilon_cap: .inf", "2: epsilon_cap", "finite number, found inf"),
    ("study: commute", "study: commute\nzone: Berlin", "2: zone", "names as in UTC and Europe/Berlin, found"),
    ("study: commute", "study: commute\nzone: ../etc/passwd", "2: zone", "is no time zone"),
    ("study: commute", "study: commute\nrepeats: never", "2: repeats", "'first' or 'all', found 'never'"),
    ("study: commute", "study: commute\nmost_reports: 0", "2: most_reports", "greater than or equal to 1"),
    ("study: commute", "study: commute\ngroups: region", "2: groups", "write {field: region}, found"),
    ("study: commute", "study: commute\nintervals: 0.9", "2: intervals", "write {level: 0.9}, found"),
    ("study: commute", "study: commute\npublish: 50", "2: publish", "write {at_least: 50}, found 50"),
    ("study: commute", "study: commute\nledger: 30d", "2: ledger", "write {period: 30d}, found '30d'"),
    ("study: commute", "study: commute\npanel: 24", "2: panel", "write {windows: 24}, found 24"),
    ("{size: 1h, allowed_lateness: 10m}", "1h", "14: windows", "write {size: 1h}, found"),
    (ULE, "ule", AT_ULE, "write {estimator: ule}, found"),
    ("study: commute", "study: commute\ngroups: {field: user_id}", "2: groups.field", "found 'user_id'"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "place", "says"), MISTAKES)
def test_a_mistake_is_one_message_with_its_place(
    commute_text: str, old: str, new: str, place: str, says: str
) -> None:
    assert old in commute_text
    assert_says(commute_text.replace(old, new), place, says)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("epsilon: 0.5", "epsilon: 010", ":8: 010 means 8 in YAML; write 8 for that number, '010' in quotes"),
        ("epsilon: 0.5", "epsilon: 1:30", ":8: 1:30 means 90 in YAML"),
        ("epsilon: 0.5", "epsilon: 007.5", ":8: 007.5 means 7.5 in YAML"),
        (DOMAIN, "{categories: [010, 2]}", ":4: 010 means 8 in YAML"),
        ("epsilon: 0.5", "epsilon: 0,5", ":8: 0,5 is two values to YAML: write 0.5, with a point, or a"),
        ("buckets: 256", "buckets: 2,5", "this must be a number; write 2.5, with a point"),
        ("maps:   ", "no: ", ":7: a key is a text; write 'no' in quotes: YAML reads no as true or false"),
        ("study: commute", "study: commute\n1: 2", ":2: a key is a text; write '1' in quotes"),
        ("    buckets", "\tbuckets", ":5: this is not YAML: a tab; indent with spaces"),
    ],
)  # fmt: skip
def test_what_yaml_reads_otherwise_than_people_do(commute_text: str, old: str, new: str, says: str) -> None:
    assert old in commute_text
    assert says in problem(commute_text.replace(old, new))


@pytest.mark.parametrize("text", ["epsilon: 10", "epsilon: 0.5", "epsilon: 1e-1", "epsilon: +1"])
def test_usual_numbers_are_read(commute_text: str, text: str) -> None:
    parse_study(commute_text.replace("epsilon: 0.5", text))


@pytest.mark.parametrize(
    ("text", "like"),
    [
        ("user,minutes\nann,3\n", "a table of people or reports (CSV)"),
        ("user;minutes\nann;3\n", "a table of people or reports (CSV)"),
        ("user,minutes\n" + "ann,3\n" * 700_000, "a table of people or reports (CSV)"),
        ('{"user_id": "ann"}\n{"user_id": "bob"}\n', "JSON lines, as files of reports have"),
    ],
)
def test_another_file_in_place_of_a_study_is_named(text: str, like: str) -> None:
    assert problem(text).endswith(f"; this looks like {like}")


@pytest.mark.parametrize(("key", "meant"), [("epsilom", "epsilon"), ("machanism", "mechanism")])
def test_a_wrong_key_of_a_service_is_named(commute_text: str, key: str, meant: str) -> None:
    """A service takes its mechanism's options too, and is still told which of its keys is wrong."""
    message = problem(commute_text.replace(TAXI, TAXI.replace(meant, key)))
    assert re.match(r"commute\.yaml:8: .*\bservice taxi of attribute minutes\b", message), message
    assert f"did you mean {meant!r}?" in message


@pytest.mark.parametrize(
    "value", ["90", "0h", "-1h", "1.5h", "1 fortnight", "h", "null", "[1h]", "yes", "99999999999999999w"]
)
def test_a_bad_duration_is_refused_where_it_stands(commute_text: str, value: str) -> None:
    assert_says(commute_text.replace("size: 1h", f"size: {value}"), "14: windows.size", ": ")


def test_a_duration_without_a_unit_is_told_what_to_add(commute_text: str) -> None:
    message = problem(commute_text.replace("size: 1h", "size: 90"))
    assert message.endswith("size of windows: add a unit: ms, s, m, h, d or w, as in 90s, found 90")


@pytest.mark.parametrize("period", ["2h", "0s"])
def test_a_period_longer_than_its_window_or_zero_is_refused(commute_text: str, period: str) -> None:
    text = commute_text.replace("size: 1h", f"size: 1h, period: {period}")
    assert_says(text, "14: windows", "period must be above zero and at most size")


UNTIL_MARCH, SINCE_MARCH = "until: 2026-03-01T00:00:00Z", "since: 2026-03-01T00:00:00Z"
IN_MARCH = f"{SINCE_MARCH}, {UNTIL_MARCH}"
V2_SINCE = ".versions.v2.since"


@pytest.mark.parametrize(
    ("service", "place", "says"),
    [
        (versions(UNTIL_MARCH, "since: 2026-02-01T00:00:00Z"), "", "times overlap or are empty"),
        (versions(IN_MARCH, SINCE_MARCH), "", "times overlap or are empty"),
        (versions(UNTIL_MARCH, "mechanism: laplace"), "", "each version needs since and/or until"),
        (versions(UNTIL_MARCH, "since: 2026-03-01T00:00:00"), V2_SINCE, "write a time with its zone"),
        (versions(UNTIL_MARCH, "since: '2026-02-30T00:00:00Z'"), V2_SINCE, "day is out of range"),
        (versions(UNTIL_MARCH, SINCE_MARCH).replace("epsilon: 2", "epsilon: 99"), ".versions.v2", "at most"),
        ("{mechanism: laplace, epsilon: 1, version_field: app}", "", "version_field needs versions"),
        (versions(UNTIL_MARCH, SINCE_MARCH, BY_APP), "", "by version_field or by time, not both"),
        (versions("values: [a]", "values: [b, a]", BY_APP), "", "two versions have the same value"),
    ],
)  # fmt: skip
def test_versions_that_cannot_be_told_apart_are_refused(
    commute_text: str, service: str, place: str, says: str
) -> None:
    assert_says(commute_text.replace(TAXI, service), AT_TAXI + place, says)


@pytest.mark.parametrize(
    ("keys", "place", "says"),
    [
        ("epsilon: {field: eps, values: [1, 1.0]}", "epsilon of ", "write each of the values once"),
        ("epsilon: {field: eps, values: []}", "values of epsilon of ", "it needs one entry or more"),
        ("epsilon: {field: eps, values: [x]}", "entry 1 of values of epsilon of ", "valid number, found 'x'"),
        ("epsilon: {field: eps}", "values of epsilon of ", "this key is missing"),
        ("epsilon: {field: user_id, values: [1]}", "field of epsilon of ", "name another field"),
        ("epsilon: {field: eps, values: [1, 30]}", "", "epsilon must be above 1e-06 and at most 20"),
        ("epsilon: {field: e, values: [1]}, versions: {a: {}}", "", "leave the versions out"),
        (f"epsilon: {{field: e, values: {[*range(1, 64)]}}}", "", "more than 62 channels"),
        ("epsilon: 1, g: {field: g, values: [2, 3]}", "", "mechanism 'grr' has no option 'g'"),
        ("rate: {field: p, values: [0.5, 1]}", "", "rate is below 1, found 1"),
        ("rate: 0.5, epsilon: 1", "", "give one of epsilon, rate and other"),
        ("rate: 0.5, replacement: other", "replacement of ", "this must be 'any', found 'other'"),
        ("replacement: any", "", "give one of epsilon, rate and other"),
        ("rate: 0.5, mechanism: olh", "", "rate and replacement are for mechanism: grr, and other for oue"),
        ("mechanism: oue, other: 0.5", "", "other is below own, and own below 1, found 0.5 and 0.5"),
        ("mechanism: oue, own: 0, epsilon: 1", "", "own must be"),
        ("mechanism: block_hadamard, epsilon: 1, most_blocks: 0", "", "most_blocks must be"),
        ("mechanism: oue, own: 0.6, epsilon: 1, lifetime_epsilon: 2", "", "for oue with own: 0.5"),
        ("rate: {field: p, values: [.1]}, epsilon: {field: p, values: [1]}", "", "give each a field of"),
    ],
)  # fmt: skip
def test_a_channel_that_no_record_can_choose_is_refused(keys: str, place: str, says: str) -> None:
    named = "" if "mechanism" in keys else "mechanism: grr, "
    text = f"study: s\nattributes: {{x: {{domain: {{categories: 2}}, services: {{one: {{{named}{keys}}}}}}}}}"
    message = problem(text).splitlines()[0]
    assert message.startswith(f"commute.yaml:2: {place}service one of attribute x: "), message
    assert says in message


def test_a_key_that_stands_twice_is_refused_with_both_lines(commute_text: str) -> None:
    text = commute_text.replace(TAXI, "\n        epsilon: 1\n        epsilom: 2\n        epsilon: 3")
    assert problem(text) == "commute.yaml:11: 'epsilon' is given twice (first on line 9)"
    text = commute_text.replace("study: commute", "study: commute\nlist:\n- {a: 1, a: 2}")
    assert problem(text) == "commute.yaml:3: 'a' is given twice (first on line 3)"


@pytest.mark.parametrize(
    ("new", "line", "says"),
    [
        ("study: [", 3, "expected ',' or ']'"),
        ("study: commute\n\tx: 1", 2, "a tab; indent with spaces"),
        ("study: commute\nx: *nowhere", 2, "found undefined alias 'nowhere'"),
        ("study: commute\n---\nstudy: other", 2, "but found another document"),
    ],
)
def test_what_is_not_yaml_is_one_message_with_its_line(
    commute_text: str, new: str, line: int, says: str
) -> None:
    message = problem(commute_text.replace("study: commute", new))
    assert re.fullmatch(rf"commute\.yaml:{line}: this is not YAML: .+", message), message
    assert says in message


@pytest.mark.parametrize(
    "second_line", ["since: 2026-02-30T10:00:00Z", "x: !!python/name:os.system", "x: !!int one", "[1, 2]: 3"]
)
def test_yaml_that_makes_no_values_is_one_message_with_its_line(commute_text: str, second_line: str) -> None:
    message = problem(commute_text.replace("study: commute", f"study: commute\n{second_line}"))
    assert re.fullmatch(r"commute\.yaml:2: .+", message), message


@pytest.mark.parametrize(
    "text", ["", "# nothing yet\n", "- study\n- attributes\n", "commute\n", "null\n", "7\n"]
)
def test_a_file_that_is_no_mapping_is_told_what_a_study_is(text: str) -> None:
    message = problem(text)
    assert re.fullmatch(r"commute\.yaml(:1)?: a study is a mapping that starts with 'study: NAME'", message)


@pytest.mark.parametrize("name", ["strava", "internal", "list", "constrained-int"])
def test_a_place_is_whole_whatever_its_names_are(commute_text: str, name: str) -> None:
    text = commute_text.replace("taxi:", f"{name}:").replace("epsilon: 0.5", "epsilon: 0")
    assert_says(text, f"8: attributes.minutes.services.{name}.epsilon", "at most 20, found 0")


def test_a_character_that_yaml_does_not_have_is_one_message() -> None:
    assert re.fullmatch(r"commute\.yaml(:1)?: this is not YAML: .+", problem("study: a\0b\n"))


def test_two_mistakes_are_two_lines_in_one_message(commute_text: str) -> None:
    text = commute_text.replace("buckets: 256", "buckets: 0").replace("size: 1h", "size: 1")
    lines = problem(text).splitlines()
    assert [line.split(": ")[:2] for line in lines] == [
        ["commute.yaml:5", "buckets of attribute minutes"],
        ["commute.yaml:14", "size of windows"],
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "No such file"), (b"study: \xff\xfe", "a study is text in UTF-8, and this file is not")],
    ids=["missing", "not UTF-8"],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "study.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(StudyError, match=rf"study\.yaml: cannot be read: {said}") as caught:
        read_study(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_the_file_is_read_as_its_text_is(tmp_path: Path, commute_text: str) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(commute_text)
    assert read_study(path) == parse_study(commute_text)
    path.write_text(commute_text.replace("1h", "1"))
    with pytest.raises(StudyError, match=r"study\.yaml:14: size of windows: "):
        read_study(str(path))


@pytest.mark.parametrize("line", ["!!float m: 1", "a: !!bool 3", "a: !!timestamp x", "? !!int x\n: 1"])
def test_a_value_that_is_not_what_its_tag_says_is_named_with_its_line(line: str) -> None:
    with pytest.raises(StudyError, match=r"^study:2: '(m|3|x)' is not what its tag says$"):
        parse_study(f"study: s\n{line}\n")


def test_of_many_problems_the_first_are_said_and_how_many_there_are() -> None:
    attributes = ", ".join(f"a{number}: {{}}" for number in range(300))
    with pytest.raises(StudyError) as found:
        parse_study(f"study: s\nattributes: {{{attributes}}}\n")
    *said, last = str(found.value).splitlines()
    assert len(said) == 100
    assert re.fullmatch(r"study: and more: it has \d+ problems", last)


NINES = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 12))
ENDLESS = {
    "aliases of aliases": ("l0: &l0 [a, b]\n" + NINES, "aliases repeat this too often"),
    "a list in itself": ("x: &a [*a]\n", "an alias stands for itself"),
    "a mapping in itself": ("x: &a {b: *a}\n", "an alias stands for itself"),
    "many brackets": ("x: " + "[" * 3_000 + "]" * 3_000, "nested too deeply"),
    "brackets that do not end": ("x: " + "[" * 3_000, "nested too deeply"),
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_a_few_bytes_that_stand_for_very_many_are_no_study(kind: str) -> None:
    text, said = ENDLESS[kind]
    with pytest.raises(StudyError, match=said):
        parse_study(f"study: s\n{text}")


def test_a_study_may_write_a_service_once_and_name_it_again() -> None:
    services = "services: &s {a: {mechanism: grr, epsilon: 1}}"
    first = f"x0: {{domain: {{categories: 3}}, {services}}}"
    others = "".join(f"  x{n}: {{domain: {{categories: 3}}, services: *s}}\n" for n in range(1, 200))
    assert len(parse_study(f"study: s\nattributes:\n  {first}\n{others}").attributes) == 200
