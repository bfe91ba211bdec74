"""Lines of JSON with an odd token in a field, beside others: each has one fate, whatever way it comes in."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

import pyarrow as pa

from fuzz.avro_inputs import FIELDS
from fuzz.json_inputs import GOOD, ODD
from ldpbeam.schemas.messages.decode import EVENT, JSON, LINES, BadMessage, Message, decode_messages
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.reports.dead_letters import DeadLetter
from ldpbeam.transforms.reports.validation import Validation
from ldpbeam.transforms.sources.files import BadFile, sniff
from ldpbeam.transforms.sources.read import read_range, split_or_keep

#: What one parser of JSON takes and another does not, besides what all JSON inputs have.
TOKENS = (
    *ODD, "Inf", "-Inf", "-NaN", "Info", "-Infinity", "1.", ".5", "-", "1e", "1E+400", "0." + "9" * 5_000,
    "-" + "9" * 5_000, "9" * 20, "18446744073709551616", "[Inf]", "[1,]", '"NaN, -Inf"', "tru", "nul", "True",
    '"\x01"', '"\\ud800\\ud800"', '"\\/"', '"\x7f"', '4, "payload": 5', "1 2", "/*1*/1", '{"a": 1,}',
    *("[" * depth + "]" * depth for depth in (300, 600, 3_000)),
)  # fmt: skip
#: The lines of an input, each of which may be alone.
MOST_LINES = 12


def lines(rng: Random) -> bytes:
    """Some lines, a token in a field of each second one."""
    return "\n".join(_line(rng) for _ in range(rng.randint(1, MOST_LINES))).encode("utf-8", "surrogatepass")


def _line(rng: Random) -> str:
    values = {name: rng.choice(GOOD[name]) for name in rng.sample(FIELDS, rng.randint(4, len(FIELDS)))}
    if rng.random() < 0.5:
        values[rng.choice(FIELDS)] = rng.choice(TOKENS)
    return "{" + ", ".join(f'"{name}": {text}' for name, text in values.items()) + "}"


Items = Iterable[pa.RecordBatch | DeadLetter | BadMessage]
#: The number of the line of an item by its position and its row.
Number = Callable[[int, int], int]


def differing(data: bytes, wanted: Columns, validation: Validation) -> int:
    """How many of some lines are used.

    Raises:
        AssertionError: if the fate of one is another by another way in.
    """
    given = [line.replace(b"\r", b" ") for line in data.split(b"\n")][:MOST_LINES]
    given = [line for line in given if line.startswith(b"{") and line.endswith(b"}")]
    if not given:
        return 0
    text = b"\n".join(given) + b"\n"
    starts = {sum(len(line) + 1 for line in given[:number]): number for number in range(len(given))}
    ways: dict[str, tuple[Items, Number]] = {
        "file": (_file(text, wanted), lambda position, row: starts[position]),
        "lines": (decode_messages([Message("7", text, LINES)], wanted), lambda position, row: row),
    }
    singles = [Message(str(number), line, JSON) for number, line in enumerate(given)]
    ways["messages"] = decode_messages(singles, wanted), lambda position, row: position
    events = [
        Message(each.id, b'{"data": %s}' % each.data, EVENT) for each in singles if _is_python(each.data)
    ]
    ways["events"] = decode_messages(events, wanted), lambda position, row: position
    fates = {way: _fates(items, number, validation) for way, (items, number) in ways.items()}
    first = fates["file"]
    for way in ("lines", "messages"):
        assert fates[way] == first, (way, fates[way], first)
    for number, fate in fates["events"].items():
        assert fate == first[number], (number, fate, first[number])
    return sum(fate == "used" for fate in first.values())


def _is_python(line: bytes) -> bool:
    """Whether an event may have it as its data: text that Python reads, and writes as it reads it."""
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return not any(token in line for token in (b"NaN", b"Infinity", b"\\ud8", b"e400", b"E+400"))


def _file(text: bytes, wanted: Columns) -> Items:
    with tempfile.NamedTemporaryFile(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as file:
        file.write(text)
        file.flush()
        found = sniff(file.name, len(text))
        assert not isinstance(found, BadFile), found
        return [item for part in split_or_keep(found) for item in read_range(part, wanted)]


def _fates(items: Items, number: Number, validation: Validation) -> dict[int, str]:
    """What becomes of each line, by its number."""
    fates: dict[int, str] = {}
    for item in items:
        if isinstance(item, DeadLetter):
            fates[number(item.position or 0, item.row or 0)] = item.reason
        elif isinstance(item, BadMessage):
            fates[number(int(item.message.id), item.row or 0)] = item.reason
        else:
            places = zip(item.column("position").to_pylist(), item.column("row").to_pylist(), strict=True)
            fates |= {number(position, row): "used" for position, row in places}
            for letters in validation.validate(item).letters:
                for letter in letters.to_pylist():
                    fates[number(letter["position"], letter["row"])] = letter["reason"]
    return dict(sorted(fates.items()))
