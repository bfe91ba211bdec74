"""What is fuzzed: for each decoder a generator of inputs, and the way its command takes them."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from support.polls import at_once, bad_in, offsets, one_by_one, reports_in

from fuzz import avro_inputs, columnar_inputs, json_inputs, line_fates, poll_inputs
from fuzz.mutations import mutated
from ldpbeam.schemas.messages.decode import BadMessage, Message, decode_messages
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.schemas.writer_schemas import WriterSchemas
from ldpbeam.transforms.reports.dead_letters import DeadLetter, Disclosure, in_columns
from ldpbeam.transforms.reports.emitted import emit
from ldpbeam.transforms.reports.validation import Validation, wanted_columns
from ldpbeam.transforms.sources.files import BadFile, sniff
from ldpbeam.transforms.sources.read import read_range, split_or_keep
from ldpbeam.transforms.statistics import ValidateReports

SEEDS = Path(__file__).parents[1] / "data" / "fuzz"
STUDY = parse_study("""\
study: fuzz
attributes:
  x:
    domain: {numeric: [0, 1]}
    buckets: 8
    services:
      a: {mechanism: piecewise, epsilon: 1.0}
      b: {mechanism: laplace, version_field: app, versions: {v1: {epsilon: 1.0}, v2: {epsilon: 2.0}}}
    estimates: {mean: {estimator: ivw}}
  y:
    domain: {categories: 40}
    services: {a: {mechanism: olh, epsilon: 1.0}, b: {mechanism: oue, epsilon: 1.0}}
    estimates: {shares: {estimator: norm_sub}}
windows: {size: 1h}
""")
WANTED = wanted_columns(STUDY, None, None)
#: What of a decoder's output goes on to be validated: its first reports and dead letters.
MOST_REPORTS, MOST_LETTERS = 50_000, 500
#: Reports of a poll that are compared with those of each message.
MOST_COMPARED = 10_000
#: A decoder that met its memory's end and went on has not kept to its limit.
_NO_MEMORY = re.compile(r"MemoryError|(m|re)alloc|bad_alloc|[Oo]ut of memory|Unable to allocate")


@dataclass(frozen=True)
class Target:
    """A decoder that is fuzzed.

    Attributes:
        name: its seeds' folder, and what ``--target`` calls it.
        generate: makes one input; the same for the same state of the generator of random numbers.
        decode: decodes an input as the command does, and gives how much of it was taken (reports);
            raises what the command would show as a traceback.
        prepare: makes what is costly to generate, once.
        inputs: how many a run of the tests has: `make fuzz` has far more.
        trusted: whether who writes the bytes is trusted, so that no seed is changed.
    """

    name: str
    generate: Callable[[Random], bytes]
    decode: Callable[[bytes], int]
    prepare: Callable[[], None]
    inputs: int
    trusted: bool = False

    def input(self, seed: int, number: int) -> bytes:
        """One input: first the seeds as they are, then what is generated, and changed seeds."""
        seeds = self.seeds
        if number < len(seeds):
            return seeds[number]
        rng = Random(f"{seed}/{self.name}/{number}")
        if seeds and not self.trusted and rng.random() < 0.15:
            return mutated(rng, rng.choice(seeds), seeds)
        return self.generate(rng)

    @property
    def seeds(self) -> list[bytes]:
        """Small inputs that are kept: valid ones, and those that once found a fault."""
        if self.name not in _SEEDS:
            _SEEDS[self.name] = [path.read_bytes() for path in sorted((SEEDS / self.name).glob("*"))]
        return _SEEDS[self.name]


_SEEDS: dict[str, list[bytes]] = {}


class UnboundedError(Exception):
    """A decoder took the end of its memory for damage."""


def _say(problem: str) -> None:
    if not problem or problem.endswith(": "):
        raise AssertionError(f"a problem without words: {problem!r}")
    if _NO_MEMORY.search(problem):
        raise UnboundedError(problem)


@contextlib.contextmanager
def _written(data: bytes) -> Iterator[str]:
    """The name of a file of some bytes, in memory where the system can."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as file:
        file.write(data)
        file.flush()
        yield file.name


def _file(data: bytes) -> int:
    """A file of reports, as a batch run reads it."""
    with _written(data) as name:
        found = sniff(name, len(data))
        if isinstance(found, BadFile):
            _say(found.problem)
            return 0
        return _look(item for part in split_or_keep(found) for item in read_range(part, WANTED))


def _messages(content_type: str) -> Callable[[bytes], int]:
    def decode(data: bytes) -> int:
        return _look(map(_letter, decode_messages([Message("7", data, content_type)], WANTED)))

    return decode


def _letter(item: pa.RecordBatch | BadMessage) -> pa.RecordBatch | DeadLetter:
    if isinstance(item, BadMessage):
        return DeadLetter(item.message.id, None, item.row, item.reason, item.problem, item.reports, item.data)
    return item


def _poll(data: bytes) -> int:
    """A poll, each message of which decodes as it does by itself."""
    messages = poll_inputs.messages_of(data)
    wanted = replace(WANTED, schemas=WriterSchemas(texts=tuple(poll_inputs.SCHEMAS.items())))
    items = at_once(messages, wanted, ids := offsets(7, len(messages)))
    if sum(item.num_rows for item in items if not isinstance(item, BadMessage)) < MOST_COMPARED:
        alone = one_by_one(messages, wanted, ids.texts().to_pylist())
        assert reports_in(items) == reports_in(alone)
        assert bad_in(items) == bad_in(alone)
    return _look(map(_letter, items))


def _fates(data: bytes) -> int:
    """Lines that have one fate each, by every way in."""
    return line_fates.differing(data, WANTED, Validation(STUDY))


def _look(items: Iterable[pa.RecordBatch | DeadLetter]) -> int:
    """Go on with what was decoded, as the pipeline does; gives how many reports there were."""
    validate: Any = ValidateReports(STUDY).function
    reports = letters = 0
    for item in items:
        if isinstance(item, DeadLetter):
            letters += 1
            assert item.reports >= 1, item
            if letters < MOST_LETTERS:
                _say(item.detail)
                list(emit(in_columns([item]), Disclosure(records=True)))
            continue
        if reports < MOST_REPORTS:
            part = item.slice(0, MOST_REPORTS - reports)
            part.validate(full=True)
            list(validate.process(part))
        reports += item.num_rows
    return reports


def _nothing() -> None:
    """What is cheap to generate needs no preparation."""


AVRO, LINES, JSON = "application/avro", "application/x-ndjson", "application/json"
ARROW = "application/vnd.apache.arrow.stream"
TARGETS = (
    Target("avro_file", avro_inputs.container, _file, avro_inputs.prepare, 200),
    Target("avro_object", avro_inputs.single_object, _messages(AVRO), _nothing, 800),
    Target("json_file", json_inputs.lines, _file, _nothing, 200),
    Target("json_lines", json_inputs.lines, _messages(LINES), _nothing, 200),
    Target("line_fates", line_fates.lines, _fates, _nothing, 400),
    Target("json_report", json_inputs.report, _messages(JSON), _nothing, 800),
    Target("gzip_file", json_inputs.gzipped, _file, json_inputs.prepare, 200),
    Target("parquet_file", columnar_inputs.parquet, _file, columnar_inputs.prepare_parquet, 200, True),
    Target("arrow_message", columnar_inputs.stream, _messages(ARROW), columnar_inputs.prepare, 200),
    Target("poll", poll_inputs.poll, _poll, columnar_inputs.prepare, 100),
)
