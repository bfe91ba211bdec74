"""A line of JSON has one fate, and leaves other lines theirs: pyarrow and Python, which parse it, agree."""

from __future__ import annotations

import functools

import pytest

from ldpbeam.schemas.files.json_lines import BadLine, decode_lines
from ldpbeam.schemas.messages.binary import BadMessage, Message
from ldpbeam.schemas.messages.decode import EVENT, JSON, decode_messages
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.reports.validation import Validation, wanted_columns

STUDY = parse_study("""\
study: two
attributes:
  x:
    domain: {categories: 8}
    services: {bits: {mechanism: oue, epsilon: 1}, one: {mechanism: grr, epsilon: 1}}
windows: {size: 1h}
""")
WANTED, CHECKED = wanted_columns(STUDY, None, None), Validation(STUDY)
REPORT = {
    "user_id": b'"u"', "attribute": b'"x"', "service": b'"one"', "event_time": b"1795168800000",
    "payload": b"3",
}  # fmt: skip


def line(**fields: bytes) -> bytes:
    return (
        b"{"
        + b",".join(b'"%s":%s' % (name.encode(), text) for name, text in (REPORT | fields).items())
        + b"}"
    )


BITS, ONE, DIGITS = (
    line(service=b'"bits"', payload=b'"05"'),
    line(user_id=b"7", event_time=b"1795168800000.5"),
    b"9" * 5_000,
)
#: What stands before and after a line: neither, good lines whose fields have other types, and broken ones.
BESIDE = [
    (b"", b""), (BITS, b""), (ONE, BITS), (b"", ONE), (BITS, b"{"), (b'{"payload":}', ONE),
    (line(user_id=b'"w"', z=b"Inf"), b""),
]  # fmt: skip
TOKENS = [
    b"NaN", b"Inf", b"Infinity", b"Info", b"-NaN", b"-Inf", b"-Infinity", b"-0", b"1e400", DIGITS,
    b"-" + DIGITS, b"true", b"null", b"+1", b"01", b".5", b"1.", b"0." + DIGITS, b"[]", b"{}", b"[Inf]",
    b"[1,]", b"9" * 20,
    *(b"[" * depth + b"]" * depth for depth in (300, 600, 3_000)), b'{"a":' * 600 + b"1" + b"}" * 600,
    b'""', b'"NaN, Inf and -NaN"', b'"\\ud800"', b'"\\u0000"', b'"\xff"', b'"\x01"', b"'a'", b'"',
    b'4,"payload":5',
]  # fmt: skip


@functools.cache
def fates(*lines: bytes) -> list[str]:
    """What becomes of each line."""
    text = b"\n".join(lines) + b"\n"
    places = {text.index(line + b"\n"): number for number, line in enumerate(lines)}
    assert len(places) == len(lines)
    found = {}
    for item in decode_lines(0, text, WANTED):
        if isinstance(item, BadLine):
            found[item.position] = "none"
            continue
        dead = {
            row["position"]: row["reason"]
            for batch in CHECKED.validate(item).letters
            for row in batch.to_pylist()
        }
        found |= {position: dead.get(position, "used") for position in item.column("position").to_pylist()}
    return [found[position] for position in places]


@pytest.mark.parametrize("field", [*REPORT, "z"])
def test_what_becomes_of_a_line_depends_on_no_other_line(field: str) -> None:
    assert fates(BITS) == fates(ONE) == ["used"]
    for token in TOKENS:
        odd = line(**{field: token})
        (alone,) = fates(odd)
        for before, after in BESIDE:
            lines = [other for other in (before, odd, after) if other]
            expected = [alone if other == odd else fates(other)[0] for other in lines]
            assert fates(*lines) == expected, (token[:30], before, after)


@pytest.mark.parametrize("token", [b"Inf", b"-Inf", b"-NaN"])
def test_a_number_that_json_does_not_know_costs_its_line_alone(token: bytes) -> None:
    for odd in (line(z=token), b'{"z":%s}' % token, line(payload=token)):
        assert fates(BITS, odd, ONE) == ["used", "none", "used"]


def test_text_that_is_not_unicode_costs_no_other_payload() -> None:
    odd = line(service=b'"bits"', payload=b'"\\ud800\\ud800"')
    assert fates(BITS, odd, ONE) == ["used", "payload_wrong_length", "used"]


def test_what_is_in_a_field_that_is_not_read_matters_only_if_the_line_is_no_json() -> None:
    for token in (
        DIGITS,
        b"[" * 600 + b"]" * 600,
        b'"Inf, -NaN"',
        b"[" * 300 + b"]" * 300,
        b'["[[[[[[", "{"]',
    ):
        assert fates(line(z=token), BITS) == ["used", "used"]


def test_a_number_of_many_digits_that_is_not_read_costs_no_message_however_it_is_written() -> None:
    report = line(z=DIGITS)
    forms = {report: JSON, report.replace(b",", b",\n"): JSON, b'{"data":%s}' % report: EVENT}
    messages = [Message(str(number), data, kind) for number, (data, kind) in enumerate(forms.items())]
    decoded = list(decode_messages(messages, WANTED))
    assert not [item for item in decoded if isinstance(item, BadMessage)]
    assert sum(item.num_rows for item in decoded) == 3
