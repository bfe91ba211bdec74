"""JSON lines whose values, types, lengths, nesting and encoding are right, or wrong in one of many ways."""

from __future__ import annotations

import functools
import gzip
import json
import zlib
from random import Random

from fuzz.avro_inputs import FIELDS
from fuzz.mutations import edge, mutated

GOOD = {
    "user_id": ('"u1"', '"00000000-0000-0000-0000-000000000001"', '"u2"'),
    "attribute": ('"x"',),
    "service": ('"a"', '"b"'),
    "event_time": ("1767225600000", '"2026-11-20T10:00:00Z"', "1767225600000.5"),
    "report_id": ('"r1"', '"00000000-0000-0000-0000-000000000002"'),
    "payload": ("0.25", "-1", "0", "1e-3", '"cc02000002000000"'),
    "app": ('"v1"',),
    "other": ("null", "[1, {}]"),
}
ODD = (
    "null", "true", "false", "-0", "-0.0", "1e400", "-1e400", "NaN", "Infinity", "-Infinity", "1" * 400,
    "0.1e", "+1", "01", "0x10", "[]", "{}", '""', '"\\u0000"', '"\\ud800"', '"\\ud83d\\ude00"', '"é"',
    '"\\x"', '"\t"', "'u'", '"', "[", "1" * 5_000, "1.0e-5000", '"2026-02-30T10:00:00Z"',
    '"2199-12-31T23:59:60Z"', '"0001-01-01T00:00:00Z"', "[[1], [2]]", '{"user_id": "u"}',
    '[{"a": 1}, 2, "x"]',
)  # fmt: skip


def lines(rng: Random) -> bytes:
    """Some lines of reports."""
    count = rng.choice((0, 1, 2, 5, 70, 130)) if rng.random() < 0.97 else rng.choice((500, 3_000))
    shape = tuple(rng.sample(FIELDS, rng.randint(2, len(FIELDS))))
    odd = rng.choice((0.0, 0.02, 0.3))
    found = [_line(rng, shape if rng.random() < 0.8 else FIELDS, odd) for _ in range(count)]
    data = (
        rng.choice(("\n", "\n", "\n", "\r\n", "\n\n", "\n \t\n", "\r"))
        .join(found)
        .encode("utf-8", "surrogatepass")
    )
    data += rng.choice((b"", b"\n", b"\n", b"\n\n"))
    if rng.random() < 0.05:
        data = b"\xef\xbb\xbf" + data
    if rng.random() < 0.02:
        data += rng.choice(
            (b"[" * 5_000, b'{"user_id":' * 5_000, b"junk\n" * 3_000, b"{}\n" * 3_000, b" " * 100_000)
        )
    return mutated(rng, data, ()) if rng.random() < 0.4 else data


def report(rng: Random) -> bytes:
    """A message of one report, on one line or several."""
    data = _line(rng, rng.choice((FIELDS, FIELDS[:6], FIELDS[2:])), rng.choice((0.0, 0.1, 0.5))).encode(
        "utf-8", "surrogatepass"
    )
    if rng.random() < 0.1:
        data = data.replace(b", ", b",\n ")
    return mutated(rng, data, ()) if rng.random() < 0.4 else data


def _line(rng: Random, shape: tuple[str, ...], odd: float) -> str:
    parts = []
    for name in shape:
        value = rng.choice(GOOD[name])
        if rng.random() < odd:
            value = rng.choice(
                (*ODD, str(edge(rng)), json.dumps("x" * rng.choice((1, 300, 5_000))), _deep(rng))
            )
        parts.append(f'"{name}": {value}')
    if rng.random() < odd:
        parts.append(rng.choice((*parts, '"payload": 1, "payload": 2', '"\\u0075ser_id": "u9"', '"": 1')))
    return "{" + ", ".join(parts) + "}"


def _deep(rng: Random) -> str:
    depth = rng.choice((2, 60, 600, 1_200)) if rng.random() < 0.2 else 2
    return "[" * depth + "]" * depth if rng.random() < 0.5 else '{"a":' * depth + "1" + "}" * depth


def gzipped(rng: Random) -> bytes:
    """Compressed lines: members, headers, checksums and ends right or wrong, and bombs."""
    if rng.random() < 0.005:
        return _bomb(rng.choice((4, 48)))
    data = b"".join(_member(rng, lines(rng)) for _ in range(rng.choice((1, 1, 1, 2, 3))))
    if rng.random() < 0.1:
        data += rng.choice((bytes(10), b"\x1f\x8b", rng.randbytes(20), bytes(100_000)))
    return mutated(rng, data, ()) if rng.random() < 0.5 else data


def _member(rng: Random, text: bytes) -> bytes:
    packed = gzip.compress(text, rng.choice((0, 1, 6)), mtime=0)
    if rng.random() < 0.1:
        return packed[:-8] + rng.randbytes(8)
    return packed


@functools.cache
def _bomb(pieces: int) -> bytes:
    """A gzip member of many equal lines."""
    text = b'{"user_id": "u1", "attribute": "x", "service": "a", "payload": 0.5}\n' * (2**24 // 68)
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return packer.compress(text * pieces) + packer.flush() if pieces <= 4 else _line_bomb()


@functools.cache
def _line_bomb() -> bytes:
    """A gzip member of one endless line."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    parts = [packer.compress(b'{"user_id": "' if n == 0 else b"u" * 2**24) for n in range(48)]
    return b"".join(parts) + packer.flush()


def prepare() -> None:
    """Make the bombs before limits apply."""
    for pieces in (4, 48):
        _bomb(pieces)
