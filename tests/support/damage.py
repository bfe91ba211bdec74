"""Damage to inputs of every format: random single-bit flips and truncations, and what becomes of each."""

from __future__ import annotations

import contextlib
import gzip
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa

from ldpbeam.errors import UserError
from ldpbeam.folders.written import read_all
from ldpbeam.schemas.messages.binary import ARROW, BadMessage, Message
from ldpbeam.schemas.messages.decode import decode_messages
from ldpbeam.transforms.reports.dead_letters import DEAD as DEAD_TAG
from ldpbeam.transforms.reports.dead_letters import DeadLetter
from ldpbeam.transforms.reports.validation import wanted_columns
from ldpbeam.transforms.sources.files import BadFile, sniff
from ldpbeam.transforms.sources.read import DAMAGE, read_range, split_or_keep
from ldpbeam.transforms.statistics import ValidateReports
from support import inputs

WANTED = wanted_columns(inputs.STUDY, None, None)
#: What becomes of damage: the run stops, or its exit code is not 0; what is bad is counted; the statistic
#: equals that of the undamaged input; or it differs, because the changed bytes are a valid input, too.
FLAGGED, DEAD, SAME, UNSEEN = "flagged", "dead letters", "no effect", "not detected"


class Found(NamedTuple):
    """What a command reads from some bytes.

    Attributes:
        statistic: what the statistic depends on: a window and a payload of each report that counts, in order.
        reports: how many reports (snapshots) were read, those that are duplicates included.
        flag: how damage was noticed, as a column of the table; empty if not at all.
    """

    statistic: Sequence[tuple[Any, Any]]
    reports: int
    flag: str = ""


#: A file that the run does not go on with.
STOPPED = Found((), 0, FLAGGED)


def never(_: bytes) -> bool:
    """No beginning of an input is whole where the format says how it ends."""
    return False


@dataclass(frozen=True)
class Format:
    """A format of inputs.

    Attributes:
        name: as the table has it.
        valid: the bytes before the damage.
        read: reads bytes as a command does.
        whole: whether bytes are all of a shorter input, so that no reader can know that there was more.
        suffix: of a file that the command reads; empty for messages.
    """

    name: str
    valid: bytes
    read: Callable[[bytes], Found]
    whole: Callable[[bytes], bool] = never
    suffix: str = ""


def outcome(own: Format, before: Found, damaged: bytes) -> str:
    """What becomes of damaged bytes.

    Raises:
        AssertionError: if reports are lost although nothing says so.
    """
    found = own.read(damaged)
    if found.flag:
        return found.flag
    if found.statistic == before.statistic:
        return SAME
    lost = before.reports - found.reports
    assert lost <= 0 or own.whole(damaged), f"{own.name}: {lost} reports are lost, and nothing says so"
    return UNSEEN


def flipped(rng: Random, data: bytes) -> bytes:
    """Some bytes with one bit flipped."""
    changed = bytearray(data)
    changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def truncated(rng: Random, data: bytes) -> bytes:
    """Some bytes without their end, of any length."""
    return data[: rng.randrange(len(data))]


@contextlib.contextmanager
def _written(data: bytes, suffix: str) -> Iterator[str]:
    with tempfile.NamedTemporaryFile(suffix=f".{suffix}") as file:
        file.write(data)
        file.flush()
        yield file.name


def _read_file(suffix: str, data: bytes) -> Found:
    """A file of reports, as ``ldpbeam estimate`` reads it."""
    with _written(data, suffix) as name:
        file = sniff(name, len(data))
        if isinstance(file, BadFile):
            return STOPPED
        items = [item for part in split_or_keep(file) for item in read_range(part, WANTED)]
    letters = [item for item in items if isinstance(item, DeadLetter)]
    if any(letter.reason in DAMAGE for letter in letters):
        return STOPPED
    found = _validated(item for item in items if not isinstance(item, DeadLetter))
    return found._replace(flag=DEAD) if letters else found


def _read_message(data: bytes) -> Found:
    """An Arrow message, as ``ldpbeam stream`` decodes it: damage is a dead letter there."""
    items = list(decode_messages([Message("7", data, ARROW)], WANTED))
    found = _validated(item for item in items if not isinstance(item, BadMessage))
    return found._replace(flag=DEAD) if any(isinstance(item, BadMessage) for item in items) else found


def _validated(batches: Iterable[pa.RecordBatch]) -> Found:
    """What is left of decoded batches: one report of each user and window counts."""
    validate: Any = ValidateReports(inputs.STUDY).function
    kept: dict[tuple[bytes, int], float] = {}
    reports, flag = 0, ""
    for batch in batches:
        for part in validate.process(batch):
            if isinstance(part, pa.RecordBatch):
                users, times, payloads = (
                    part.column(n).to_pylist() for n in ("user", "event_time", "payload")
                )
                hours = [time // inputs.HOUR for time in times]
                kept |= dict(zip(zip(users, hours, strict=True), payloads, strict=True))
                reports += part.num_rows
            elif part.tag == DEAD_TAG:
                flag = DEAD
    return Found(sorted((hour, payload) for (_, hour), payload in kept.items()), reports, flag)


def _read_snapshots(data: bytes) -> Found:
    """A file of snapshots, as ``ldpbeam rollup`` reads it."""
    with _written(data, "avro") as name:
        try:
            found = [(snapshot.window, snapshot) for _, snapshot in read_all([name])]
        except UserError:
            return STOPPED
    return Found(found, len(found))


def formats() -> Iterator[Format]:
    """Every format, with an input of its own."""
    for codec in inputs.CODECS:
        yield _file(
            f"Avro, {codec}", "avro", inputs.container(codec), lambda data: data.endswith(inputs.SYNC)
        )
    lines = b"".join(json.dumps(report).encode() + b"\n" for report in inputs.reports())
    yield _file("JSON lines", "jsonl", lines, lambda data: not data or data.rstrip().endswith(b"}"))
    yield _file("JSON lines, gzip", "jsonl.gz", gzip.compress(lines, mtime=0))
    yield _file("Parquet", "parquet", inputs.parquet(False))
    yield _file("Parquet, page checksums", "parquet", inputs.parquet(True))
    yield Format("Arrow message", inputs.arrow(None), _read_message, _whole_batches)
    yield Format("Arrow message, zstd", inputs.arrow("zstd"), _read_message, _whole_batches)
    yield Format("snapshot", inputs.snapshots(), _read_snapshots)


def _file(name: str, suffix: str, valid: bytes, whole: Callable[[bytes], bool] = never) -> Format:
    return Format(name, valid, partial(_read_file, suffix), whole, suffix)


def _whole_batches(data: bytes) -> bool:
    """Whether an Arrow stream without its end mark stops behind a batch, which its format permits."""
    try:
        pa.ipc.open_stream(data).read_all()
    except pa.ArrowException:
        return False
    return True


def damage(own: Format, flips: int, truncations: int, seed: int = 0) -> dict[str, Counter[str]]:
    """How often which outcome came of flips and of truncations."""
    before = own.read(own.valid)
    assert before.statistic and not before.flag, f"{own.name}: the undamaged input is not read"
    rng = Random(f"{seed}/{own.name}")
    return {
        "flips": Counter(outcome(own, before, flipped(rng, own.valid)) for _ in range(flips)),
        "truncations": Counter(outcome(own, before, truncated(rng, own.valid)) for _ in range(truncations)),
    }
