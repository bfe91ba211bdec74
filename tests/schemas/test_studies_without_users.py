"""Studies whose reports have no users: what they cannot ask, and what they are otherwise."""

from __future__ import annotations

import re

import pytest

import ldpbeam as ldp
from ldpbeam.answers.explain import explain
from ldpbeam.errors import StudyError
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.reports.dead_letters import disclosure_for
from ldpbeam.transforms.reports.validation import wanted_columns

STUDY = """\
study: nobody
users: none
attributes:
  app:
    domain: {categories: [tea, rum]}
    services: {x: {mechanism: grr, epsilon: 1}, y: {mechanism: grr, epsilon: 2}}
windows: {size: 1h}
"""
OTHERS = "  others: {domain: {categories: 2}, services: {x: {mechanism: grr, epsilon: 1}}}\nwindows:"
SOME = STUDY.replace("users: none\n", "").replace("  app:", "  app:\n    users: none")
SOME = SOME.replace("windows:", OTHERS)
ABOUT_USERS = (
    "it is about all that one user sends, and reports of 'app' have no users (users: none): leave it out"
)
ONE_USER = "it needs to know which reports are of one user, and reports of 'app' have no users (users: none)"
AT_X = "service x of attribute app"

#: What is changed, the place, and what is said.
MISTAKES = [
    ("users: none", "users: no", "users", "'ids' or 'none', found False"),
    ("users: none", "users: nobody", "users", "'ids' or 'none', found 'nobody'"),
    ("users: none", "user: none", "user", "unknown key; did you mean 'users'?"),
    ("  app:", "  app:\n    users: some", "users of attribute app", "'ids' or 'none', found 'some'"),
    ("users: none", "users: none\nrepeats: all", "study: repeats", ABOUT_USERS),
    ("users: none", "users: none\nmost_reports: 9", "study: most_reports", ABOUT_USERS),
    ("users: none", "users: none\npanel: {windows: 24}", "study: panel", ABOUT_USERS),
    ("users: none", "users: none\nepsilon_cap: 3", "study: epsilon_cap", ABOUT_USERS),
    ("users: none", "users: none\nledger: {period: 30d}", "study: ledger", ABOUT_USERS),
    ("size: 1h", "size: 1h, joined: 1d", "study: windows.joined", ABOUT_USERS),
    ("    services", "    joint_buckets: 4\n    services", "joint_buckets of attribute app", ONE_USER),
    ("epsilon: 1}", "epsilon: 1, lifetime_epsilon: 2}", f"lifetime_epsilon of {AT_X}", ONE_USER),
    ("epsilon: 1}", "epsilon: 1, values_at_most: 2}", f"values_at_most of {AT_X}", ONE_USER),
    (
        "{mechanism: grr, epsilon: 1}",
        "{mechanism: grr, version_field: v, versions: {a: {epsilon: 1, lifetime_epsilon: 2}}}",
        f"lifetime_epsilon of version a of {AT_X}",
        ONE_USER,
    ),
    (
        "windows:",
        "    estimates: {all: {estimator: ule}}\nwindows:",
        "estimate all of attribute app",
        "it joins the reports of a user, and these have no users (users: none): choose one that does not",
    ),
]


@pytest.mark.parametrize(("old", "new", "place", "says"), MISTAKES)
@pytest.mark.parametrize("text", [STUDY, SOME], ids=["no users", "some users"])
def test_what_cannot_be_asked_of_nobody_is_one_sentence(
    text: str, old: str, new: str, place: str, says: str
) -> None:
    if text == SOME and old == "users: none":
        # The first line of this study is followed by the key that is mistaken.
        key = new.removeprefix("users: none").strip()
        old, new = "study: nobody", f"study: nobody\n{key}"
    if text == SOME and old == "  app:":
        old, new = "    users: none", "    users: some"
    if text == SOME and old == "windows:":
        old, new = "  others:", new.replace("windows:", "  others:")
    assert old in text
    with pytest.raises(StudyError) as caught:
        parse_study(text.replace(old, new, 1), "study.yaml")
    message = str(caught.value)
    assert re.match(rf"study\.yaml:\d+: {re.escape(place)}: ", message), message
    assert says in message
    assert "\n" not in message
    of_their_own = text == SOME and says == ABOUT_USERS
    assert message.endswith(", or give the others a study of their own") == of_their_own


def test_users_are_asked_of_an_attribute_unless_it_or_the_study_has_none() -> None:
    for text, without in (
        (STUDY, ("app",)),
        (SOME, ("app",)),
        (STUDY.replace("users: none", "users: ids"), ()),
        (STUDY.replace("  app:", "  app:\n    users: ids"), ()),
        (STUDY.replace("users: none\n", ""), ()),
    ):
        study = parse_study(text)
        assert study.without_users == without
        assert study.group_users == (without == () or text == SOME)
        names = wanted_columns(study, None, None).names
        assert ("user_id" in names) == study.group_users
    # What is not said changes no fingerprint.
    assert "users" not in parse_study(STUDY.replace("users: none\n", "")).text


def test_a_field_that_was_an_id_is_not_read_under_another_name() -> None:
    study = parse_study(STUDY)
    with pytest.raises(ValueError, match="'user_id' is not a column of this study's reports; there are: "):
        wanted_columns(study, None, None, renamed={"user_id": "uid"})
    for text in (STUDY, SOME):
        with pytest.raises(ValueError, match="the field 'user_id' is not read, because reports of 'app'"):
            wanted_columns(parse_study(text), None, None, renamed={"report_id": "user_id"})
        with pytest.raises(ValueError, match="bad records are kept as they came, with user ids"):
            disclosure_for(parse_study(text), True, None)


def test_what_is_counted_and_who_can_remove_a_report_is_explained() -> None:
    said = " ".join(explain(parse_study(STUDY)))
    assert "Reports of 'app' have no users (users: none): no user id is read" in said
    assert "Thresholds, intervals and tests of fit take each report as another person's" in said
    assert "whoever knows the id of a report can send another in its place" in said
    assert "fewer than 2 reports is not estimated" in said
    assert "A user counts once" not in said
    kept = " ".join(explain(parse_study(f"{STUDY}duplicates: keep\n")))
    assert "Every report counts" in kept and "knows the id" not in kept
    both = " ".join(explain(parse_study(SOME)))
    assert "A user counts once per service and window" in both
    assert "fewer than 2 users (of 'app', reports) is not estimated" in both
    assert both.count("its reports have no users, so the ledger leaves it out") == 1


def test_windows_of_nobody_are_not_compared_by_user() -> None:
    times = (0, 3_600_000)
    with pytest.raises(ValueError, match=r"it has users: none; compare estimates instead"):
        ldp.difference(ldp.Study.from_yaml(STUDY), [], windows=times)
