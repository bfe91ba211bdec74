"""What a billion users a day would take: constants measured on one core, and all else computed from them.

    python -m benchmarks.scale [--write docs/scale.md]     measure, then compute
    python -m benchmarks.scale --measured docs/scale.md    compute again from what that page was made of

Times are of the processor, the best of three, in processes held to one core. Nothing runs on a cloud.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import math
import os
import pickle
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.utils.timestamp import Timestamp

from benchmarks.pages import show
from ldpbeam.pipelines.clients.people import People
from ldpbeam.pipelines.clients.perturb import simulate
from ldpbeam.pipelines.clients.report_files import SentReports, write_reports
from ldpbeam.pipelines.graphs import batch
from ldpbeam.pipelines.options import stream as stream_options
from ldpbeam.runners.flink import CHECKPOINT_MILLISECONDS
from ldpbeam.schemas.encodings.avro_rows import BATCH_REPORTS
from ldpbeam.schemas.outputs.snapshots import decode_statistic, encode_statistic
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.statistics import Answers, Statistic, tally
from ldpbeam.study import Study
from ldpbeam.transforms.joining.join import join
from ldpbeam.transforms.joining.report_ids import without_duplicate_ids
from ldpbeam.transforms.outputs.dead_letters import DEAD_LETTER_SHARDS
from ldpbeam.transforms.reports.batch_coder import BatchCoder
from ldpbeam.transforms.reports.batches import tagged
from ldpbeam.transforms.reports.validate import ValidateReports
from ldpbeam.transforms.reports.validation import wanted_columns
from ldpbeam.transforms.sources import native_pubsub
from ldpbeam.transforms.sources.files import RANGE_BYTES, ReportFile, split
from ldpbeam.transforms.sources.message_batches import batch_of
from ldpbeam.transforms.sources.pubsub import BATCH_MESSAGES, MOST_MESSAGES
from ldpbeam.transforms.sources.read import read_range
from ldpbeam.transforms.sources.source import BUNDLE_SECONDS
from ldpbeam.transforms.windows.coders import AccumulatorCoder, KeyCoder
from ldpbeam.transforms.windows.combine import CombineGroups
from ldpbeam.transforms.windows.cut import each_window, within_size
from ldpbeam.transforms.windows.keys import GroupKey, PieceKey
from ldpbeam.transforms.windows.split import GATHERED_REPORTS, Split
from ldpbeam.transforms.windows.statistics import Statistics
from ldpbeam.windows import REMEMBERED_WINDOWS

# Dollars, us-central1, of cloud.google.com/dataflow/pricing, as Beam 2.77 has them for its own benchmarks
# (apache_beam/testing/load_tests/dataflow_cost_consts.py).
VCPU_HOUR_BATCH, VCPU_HOUR_STREAMING = 0.056, 0.069
GB_HOUR_BATCH, GB_HOUR_STREAMING = 0.003557, 0.0035557
SHUFFLED_GB, STREAMED_GB = 0.011, 0.018
#: A TiB published, or delivered: cloud.google.com/pubsub/pricing, in a copy of 20 September 2026.
PUBSUB_TIB = 40.0
#: An example: an hour of a core with its memory (n1-standard-1, Iowa, Google's calculator of 18 May 2023).
MACHINE_HOUR = 0.0475
#: Memory of a worker for each of its cores (n1-standard), in GB.
WORKER_GB = 3.75
#: Reports in a message that has many, and in a small bundle of a stream.
MESSAGE_REPORTS, SMALL_BUNDLE = 1_000, 1_000
#: The share of bad reports for which a limit is told.
BAD = 0.01

HOUR, DAY = 3_600_000, 86_400_000
SERVICES = ("square_wave, epsilon: 1.0", "piecewise, epsilon: 0.5", "square_wave, epsilon: 0.5")
KEY_WIDTH = 16
#: Partitions of the run that the computed times are held against.
CHECKED_PARTITIONS = 1_000


@dataclass(frozen=True)
class Measured:
    """What was measured: microseconds of one core and bytes, a report where nothing else is said.

    A slice is the rows of a batch that go to one partition and window; a piece is what a bundle hands on to
    one, gathered from its slices. ``_slice`` and ``_piece`` are what one more of them costs.

    Attributes:
        day: when.
        processor: on what.
        avro: bytes in a file.
        read: read and validate.
        shuffle: encode, the local engine, decode.
        join: join and tally; ``join_each`` what a join costs besides.
        first: compare report ids.
        batches_after_first: batches that come out of that for each that goes in.
        whole: a whole run, less what a small one takes.
        checked: seconds of a whole run of two million reports in :data:`CHECKED_PARTITIONS`, likewise.
        letter: make a dead letter.
        letter_bytes: of one in memory.
        bytes_plain: in a shuffle; ``bytes_ids`` with a report id.
        process: bytes of a process that has imported everything.
        memory: bytes at the worst moment between a partition's shuffle and its statistic.
        merge: a statistic in the combiner.
        merge_memory: what merging 400 statistics takes, in their own bytes.
        gain: a statistic that a pane adds up.
        message_bytes: in a message of many; ``message_bytes_alone`` in one of its own.
        taken: decode from a message of many by our own source, and validate; ``_alone`` from one of its own.
        native_alone: the same with Beam's own source, as on Dataflow.
        bytes_streamed: in a stream's state.
        statistics: bytes of a statistic by "services buckets": of some users, and its cells at most.
    """

    day: str
    processor: str
    avro: float
    read: float
    cut: float
    cut_slice: float
    shuffle: float
    shuffle_piece: float
    join: float
    join_piece: float
    join_each: float
    first: float
    first_piece: float
    batches_after_first: float
    whole: float
    checked: float
    letter: float
    letter_bytes: float
    bytes_plain: float
    bytes_ids: float
    bytes_piece: float
    process: float
    memory: float
    merge: float
    merge_memory: float
    gain: float
    message_bytes: float
    message_bytes_alone: float
    taken: float
    taken_alone: float
    native_alone: float
    stream_cut: float
    stream_cut_slice: float
    bytes_streamed: float
    statistics: dict[str, list[int]]


def study_of(services: int, buckets: int = 256, window: str = "1d") -> Study:
    """A number told to some services, joined where they are several."""
    named = "".join(f"      s{n}: {{mechanism: {text}}}\n" for n, text in enumerate(SERVICES[:services]))
    return parse_study(
        f"study: scale\nattributes:\n  minutes:\n    domain: {{numeric: [0, 180]}}\n    buckets: {buckets}\n"
        f"    services:\n{named}    estimates:\n      e: {{estimator: {'ule' if services > 1 else 'ems'}}}\n"
        f"windows: {{size: {window}}}\n"
    )


def partition_reports(avro: float) -> int:
    """The reports of a partition of the size that bounded runs intend."""
    return int(batch.PARTITION_BYTES / avro)


def filled(slots: float, rows: float) -> float:
    """How many of some slots have a row, when rows fall evenly at random."""
    return slots * -math.expm1(rows * math.log1p(-1 / slots)) if slots > 1 else 1.0


# --- measuring: each function in a process of its own ---


def spent(work: Callable[[], Any], runs: int = 3) -> float:
    """Microseconds of the processor, the best of some runs."""
    found = []
    for _ in range(runs):
        gc.collect()
        started = time.process_time()
        work()
        found.append(time.process_time() - started)
    return 1e6 * min(found)


def line(few: tuple[float, float], many: tuple[float, float]) -> tuple[float, float]:
    """(constant, slope) of the line through two points."""
    slope = (many[1] - few[1]) / (many[0] - few[0])
    return max(0.0, few[1] - slope * few[0]), slope


def outputs(function: Any, elements: Iterable[Any], *given: Any) -> list[Any]:
    """The main output of a DoFn for a bundle."""
    function.start_bundle()
    found = [one for element in elements for one in function.process(element, *given) or ()]
    found += function.finish_bundle() or ()
    return [getattr(one, "value", one) for one in found if not isinstance(one, beam.pvalue.TaggedOutput)]


def sent(study: Study, users: int, start: int = 0, spread: int = DAY) -> list[SentReports]:
    """What some people tell every service."""
    values = 180 * np.random.default_rng(0).beta(2, 5, users)
    people, asked = People(values, None, None, None, 0, 0), study.attribute("minutes")
    return list(
        simulate(
            study, asked, people, services=asked.services, versions={}, start=start, spread=spread, seed=0
        )
    )


def channel_batches(study: Study, reports: int, rows: int, ids: bool = False) -> list[pa.RecordBatch]:
    """Reports as they come out of a shuffle, in batches of so many rows, in no order of users."""
    rng, found = np.random.default_rng(0), []
    users = reports // len(study.attribute("minutes").services)

    def keys(raw: Any) -> pa.Array:
        data = [None, pa.py_buffer(np.ascontiguousarray(raw))]
        return pa.Array.from_buffers(pa.binary(KEY_WIDTH), users, data).cast(pa.binary())

    for version, part in enumerate(sent(study, users)):
        order = rng.permutation(users)
        columns = {
            "user": keys(part.users[order]),
            "event_time": pa.array(part.times[order]),
            "payload": pa.array(part.payloads[order]),
        }
        if ids:
            columns["report_id"] = keys(np.frombuffer(rng.bytes(KEY_WIDTH * users), dtype="V16"))
        whole = tagged(pa.RecordBatch.from_pydict(columns), "minutes", version)
        found += [BatchCoder().encode(whole.slice(at, rows)) for at in range(0, users, rows)]
    return [BatchCoder().decode(encoded) for encoded in found]


def statistic_of(study: Study, users: int) -> Statistic:
    """The statistic of some people who tell every service."""
    rows = np.arange(users)
    answers = [Answers(n, rows, part.payloads) for n, part in enumerate(sent(study, users))]
    return tally(study.attribute("minutes"), users, answers)


def joined(study: Study, batches: Sequence[pa.RecordBatch]) -> None:
    """A partition's reports to statistics."""
    attribute = study.attribute("minutes")
    for users in join(attribute, batches).users:
        tally(attribute, users.users, users.answers)


def resident(peak: bool = False) -> float:
    """The bytes of this process in memory: now, or the most since :func:`forget_peak`."""
    status = Path("/proc/self/status").read_text()
    return 1024 * float(re.findall(rf"{'VmHWM' if peak else 'VmRSS'}:\s+(\d+) kB", status)[0])


def forget_peak() -> None:
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")


def measure_reading(folder: Path) -> dict[str, Any]:
    """Files to slices; dead letters; and whole runs."""
    from rich.console import Console

    from ldpbeam.pipelines.estimates import stages as estimate
    from ldpbeam.pipelines.graphs import engines
    from ldpbeam.runners import direct

    study, users, few = study_of(2), 1_000_000, 10_000
    reports = 2 * users
    validate, columns = ValidateReports(study).function, wanted_columns(study, None, None)
    for name, count in (("many", users), ("few", few)):
        (folder / name).mkdir()
        for part in sent(study, count):
            write_reports(folder / name, part, "avro")
    paths = [(str(path), path.stat().st_size) for path in sorted((folder / "many").iterdir())]
    ranges = [part for path, size in paths for part in split(ReportFile(path, size, "avro"))]

    def validated(batches: Iterable[Any]) -> list[pa.RecordBatch]:
        return [one for part in batches for one in validate.process(part) if isinstance(one, pa.RecordBatch)]

    def read() -> list[pa.RecordBatch]:
        return validated(decoded for part in ranges for decoded in read_range(part, columns))

    good = read()
    assert sum(part.num_rows for part in good) == reports

    def cut(partitions: int) -> tuple[float, float]:
        step = Split(study.windows, partitions, within_size)
        slices = filled(partitions, BATCH_REPORTS) / BATCH_REPORTS
        return slices, spent(lambda: outputs(step, good)) / reports

    def whole(name: str, partitions: int | None = None) -> float:
        files, _ = estimate.find_input([f"{folder}/{name}/*.avro"], "stop")
        found = []
        for _ in range(3):
            with tempfile.TemporaryDirectory() as output:
                job = batch.BatchJob(study, output, "scale", files, partitions=partitions)
                engine = engines.Engine(direct.runner(), (), here=True)
                pipeline = estimate.assemble(job, engine, [])
                run = lambda: estimate.run_pipeline(pipeline, Console(quiet=True), True)  # noqa: B023, E731
                found.append(spent(run, runs=1))
        return min(found)

    small = whole("few")
    cut_one, cut_slice = line(cut(8), cut(4096))
    bad: Any = next(read_range(ranges[0], columns))
    bad = bad.replace_schema_metadata({**bad.schema.metadata, b"attribute": b"unknown", b"file": b"f.avro"})
    letters = [one.value for one in validate.process(bad) if isinstance(one, beam.pvalue.TaggedOutput)]
    return {
        "avro": sum(size for _, size in paths) / reports,
        "read": spent(read) / reports,
        "cut": cut_one,
        "cut_slice": cut_slice,
        "whole": (whole("many") - small) / (reports - 2 * few),
        "checked": (whole("many", CHECKED_PARTITIONS) - small) / 1e6,
        "letter": spent(lambda: list(validate.process(bad))) / bad.num_rows,
        "letter_bytes": sum(one.nbytes for one in letters if isinstance(one, pa.RecordBatch)) / bad.num_rows,
    }


#: What :func:`shuffled` shuffles: here, as an engine pickles functions with what they hold.
_pieces: list[tuple[str, pa.RecordBatch]] = []


def _hand_on(_: None) -> list[tuple[str, pa.RecordBatch]]:
    return _pieces


def _number(element: tuple[str, Iterable[pa.RecordBatch]]) -> int:
    return len(list(element[1]))


def shuffled(pieces: list[tuple[str, pa.RecordBatch]]) -> None:
    """Pieces encoded, brought together by key and decoded again by the local engine."""
    from ldpbeam.runners import direct

    global _pieces
    _pieces = pieces
    with beam.Pipeline(runner=direct.runner()) as pipeline:
        one = pipeline | beam.Create([None], reshuffle=False)
        handed = one | beam.FlatMap(_hand_on).with_output_types(tuple[str, pa.RecordBatch])
        _ = handed | beam.GroupByKey() | beam.Map(_number)


def measure_shuffle(folder: Path) -> dict[str, Any]:
    """Pieces through an engine, and their bytes."""
    study, key = study_of(2), "minutes/1234"
    coder = beam.coders.TupleCoder([KeyCoder(PieceKey), BatchCoder()])
    idle = spent(lambda: shuffled([]))

    def through(reports: int, rows: int) -> tuple[float, float]:
        parts = [(key, part) for part in channel_batches(study, reports, rows)]
        return len(parts) / reports, (spent(lambda: shuffled(parts)) - idle) / reports

    def size(rows: int, ids: bool) -> tuple[float, float]:
        parts = channel_batches(study, 4096, rows, ids)
        return 1 / rows, sum(len(coder.encode((key, part))) for part in parts) / 4096

    shuffle, shuffle_piece = line(through(1_000_000, 4096), through(200_000, 16))
    plain, piece = line(size(2048, False), size(16, False))
    with_ids, _ = line(size(2048, True), size(16, True))
    return {
        "shuffle": shuffle,
        "shuffle_piece": shuffle_piece,
        "bytes_plain": plain,
        "bytes_ids": with_ids,
        "bytes_piece": piece,
    }


def measure_join(folder: Path) -> dict[str, Any]:
    """A partition's reports joined and tallied; those with one report id left out."""
    study, reports = study_of(2), partition_reports(32)

    def cost(work: Callable[[Any], Any], rows: int, ids: bool = False) -> tuple[float, float]:
        batches = channel_batches(study, reports, rows, ids)
        return len(batches) / reports, spent(lambda: work(batches)) / reports

    def join_them(batches: Sequence[pa.RecordBatch]) -> None:
        joined(study, batches)

    def first(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
        return without_duplicate_ids(study.attribute("minutes"), batches)[0]

    join_one, join_piece = line(cost(join_them, 16_384), cost(join_them, 128))
    first_one, first_piece = line(cost(first, 16_384, True), cost(first, 128, True))
    small, alone = channel_batches(study, reports, 128, ids=True), channel_batches(study, 100, 50)
    pieces = [BatchCoder().encode(part) for part in channel_batches(study, reports, 206)]
    (folder / "partition").write_bytes(pickle.dumps(pieces))
    return {
        "join": join_one,
        "join_piece": join_piece,
        "join_each": spent(lambda: join_them(alone)),
        "first": first_one,
        "first_piece": first_piece,
        "batches_after_first": len(first(small)) / len(small),
    }


def measure_memory(folder: Path) -> dict[str, Any]:
    """A partition in memory, in a process that has done nothing before."""
    study, process = study_of(2), resident()
    pieces = pickle.loads((folder / "partition").read_bytes())
    before = resident()
    forget_peak()
    batches = [BatchCoder().decode(piece) for piece in pieces]
    joined(study, batches)
    return {
        "process": process,
        "memory": (resident(peak=True) - before) / sum(part.num_rows for part in batches),
    }


def measure_merging(folder: Path) -> dict[str, Any]:
    """Statistics of many bundles merged by one worker, those of panes added up, and their sizes."""
    study, merged, users = study_of(2), 400, partition_reports(32) // 2
    data = encode_statistic(statistic_of(study, users))
    combine, coder = CombineGroups(), AccumulatorCoder()
    gained = Statistics({GroupKey("minutes", None): decode_statistic(data)})
    held = coder.encode([gained])

    def merge_all() -> None:
        combine.merge_accumulators(coder.decode(held) for _ in range(merged))

    before = resident()
    forget_peak()
    merge_all()
    most, sizes = resident(peak=True) - before, {}
    for services in (1, 2, 3):
        for buckets in (64, 256, 1024):
            own = study_of(services, buckets)
            attribute = own.attribute("minutes")
            cells = 8 * sum(v.mechanism.histogram_cells(attribute.buckets) for v in attribute.versions)
            cells += 16 * math.prod(attribute.joint_shape) * bool(attribute.joint_services)
            sizes[f"{services} {buckets}"] = [len(encode_statistic(statistic_of(own, users))), int(cells)]
    return {
        "merge": spent(merge_all) / merged,
        "merge_memory": most / (merged * len(data)),
        "gain": spent(lambda: coder.encode(combine.add_input(coder.decode(held), gained))),
        "statistics": sizes,
    }


def measure_stream(folder: Path) -> dict[str, Any]:
    """Messages to slices."""
    from apache_beam.io.gcp.pubsub import PubsubMessage

    from examples.stream import client
    from ldpbeam.schemas.messages.decode import Message

    study = study_of(2, window="1h")
    validate = ValidateReports(study).function
    columns = wanted_columns(study, None, None)

    def published(users: int, alone: bool) -> list[Message]:
        found: list[client.Outgoing] = []
        for part in sent(study, users, time.time_ns() // 1_000_000 // HOUR * HOUR, HOUR):
            if alone:
                names = np.array([user.hex().encode() for user in part.users.tolist()])
                found += client.one_by_one(replace(part, users=names.astype("S33")))
            else:
                found += client.in_batches(part, MESSAGE_REPORTS)
        # Ids of messages have so many digits.
        return [Message(str(10**16 + n), one.data, one.content_type) for n, one in enumerate(found)]

    def validated(batches: Iterable[Any]) -> list[pa.RecordBatch]:
        decoded = (part for batch in batches for part in batch.batches)
        return [one for part in decoded for one in validate.process(part) if isinstance(one, pa.RecordBatch)]

    def take(messages: Sequence[Message]) -> list[pa.RecordBatch]:
        starts = range(0, len(messages), BATCH_MESSAGES)
        return validated(
            batch_of("projects/p/subscriptions/s", columns, messages[at : at + BATCH_MESSAGES])
            for at in starts
        )

    def take_native() -> list[pa.RecordBatch]:
        found = outputs(native_pubsub._Decode("projects/p/subscriptions/s", columns), pulled, Timestamp(0))
        return validated(taken.batch for taken in found)

    def cut(partitions: int) -> tuple[float, float]:
        assert study.windows is not None
        step, slices = (
            Split(study.windows, partitions, each_window, clock=True),
            filled(partitions, MESSAGE_REPORTS),
        )
        return slices / MESSAGE_REPORTS, spent(lambda: outputs(step, batches)) / 200_000

    many, alone = published(100_000, False), published(2_000, True)
    pulled = [PubsubMessage(one.data, {"content-type": one.content_type}, one.id, None, "") for one in alone]
    batches = take(many)
    stream_cut, stream_cut_slice = line(cut(8), cut(1024))
    large, small = batches[0], batches[0].slice(0, 16)
    streamed, _ = line(*((1 / b.num_rows, len(BatchCoder().encode(b)) / b.num_rows) for b in (large, small)))
    return {
        "message_bytes": sum(len(one.data) for one in many) / 200_000,
        "message_bytes_alone": sum(len(one.data) for one in alone) / 4_000,
        "taken": spent(lambda: take(many)) / 200_000,
        "taken_alone": spent(lambda: take(alone)) / 4_000,
        "native_alone": spent(take_native) / 4_000,
        "stream_cut": stream_cut,
        "stream_cut_slice": stream_cut_slice,
        "bytes_streamed": streamed,
    }


MEASURES = ("reading", "shuffle", "join", "memory", "merging", "stream")


def measure_here(name: str, folder: str) -> None:
    """Run one of the measurements in this process, on one core, and print what was found as JSON."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    logging.getLogger().setLevel(logging.ERROR)
    print(json.dumps(globals()[f"measure_{name}"](Path(folder))))


def measure() -> Measured:
    """All of them, one after the other."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in MEASURES:
            # Imported, not run as __main__: an engine's pickles name the module.
            code = f"from benchmarks.scale import __main__ as scale; scale.measure_here({name!r}, {folder!r})"
            done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True)
            found |= json.loads(done.stdout.splitlines()[-1])
    rounded = {n: float(f"{value:.4g}") if isinstance(value, float) else value for n, value in found.items()}
    processor = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    name = processor[1] if processor else "unknown"
    return Measured(day=f"{datetime.now(UTC):%Y-%m-%d}", processor=name, **rounded)


# --- computing: from what was measured, and the constants of the code ---


@dataclass(frozen=True)
class BatchRun:
    """What a bounded run would take.

    Attributes:
        partitions: of users.
        rows: reports in a piece of the shuffle before the join, in the mean.
        shuffled: bytes of reports written to shuffles.
        statistics: bytes of statistics written, where every partition is a bundle of its own.
        core_hours: of the core that was measured.
        memory: bytes that a partition of a window takes while it is joined.
    """

    partitions: int
    rows: float
    shuffled: float
    statistics: float
    core_hours: float
    memory: float

    @property
    def dollars(self) -> float:
        """On Dataflow: what is shuffled is counted written and read, without reductions."""
        hour = VCPU_HOUR_BATCH + WORKER_GB * GB_HOUR_BATCH
        return self.core_hours * hour + 2 * (self.shuffled + self.statistics) / 1e9 * SHUFFLED_GB


def cutting(m: Measured, slots: float, rows: float, in_batch: float) -> tuple[float, float]:
    """(microseconds to cut and shuffle, pieces) a report, of bundles of so many rows in batches."""
    pieces, slices = filled(slots, rows) / rows, filled(slots, in_batch) / in_batch
    return m.cut + m.cut_slice * slices + m.shuffle + m.shuffle_piece * pieces, pieces


def overhead(m: Measured) -> float:
    """How many times the sum of its steps a whole run takes."""
    cut, _ = cutting(m, batch.FEWEST_PARTITIONS, GATHERED_REPORTS, BATCH_REPORTS)
    return m.whole / (m.read + cut + m.join)


def check(m: Measured) -> float:
    """Seconds that the run that was checked would take by the other constants."""
    slices = filled(CHECKED_PARTITIONS, BATCH_REPORTS) / BATCH_REPORTS
    # Its one bundle has both services, whose pieces are apart.
    pieces = filled(2 * CHECKED_PARTITIONS, GATHERED_REPORTS) / GATHERED_REPORTS
    a_report = m.read + m.cut + m.cut_slice * slices + m.shuffle + m.join
    a_report += (m.shuffle_piece + m.join_piece) * pieces
    return overhead(m) * (2e6 * a_report + CHECKED_PARTITIONS * m.join_each) / 1e6


def partitions_of(size: float) -> int:
    """The partitions that a run makes of so many bytes of input."""
    files = (ReportFile("", math.ceil(size), "avro"),)
    return batch.BatchJob(study_of(2), "", "", files).user_partitions


def batch_run(
    m: Measured, users: float, *, windows: int = 1, mixed: bool = False, ids: bool = False
) -> BatchRun:
    """A day of users who tell two services, in one run; a bundle is taken for one range of a file.

    Args:
        m: what was measured.
        users: how many.
        windows: how many the day has.
        mixed: whether every file has reports of all of them, or of one.
        ids: whether reports have ids, which are compared first.
    """
    reports, width = 2 * users, m.avro + KEY_WIDTH * ids
    partitions = partitions_of(reports * width)
    a_report, rows = m.bytes_ids if ids else m.bytes_plain, RANGE_BYTES / width
    cost, pieces = cutting(m, partitions * (windows if mixed and not ids else 1), rows, BATCH_REPORTS)
    shuffled = a_report + m.bytes_piece * pieces
    if ids:
        cost += m.first + m.first_piece * pieces
        # Ids come together from everywhere, so from here on windows are mixed, and batches are what came out.
        rows = min(GATHERED_REPORTS, reports / partitions)
        in_batch = min(rows, 1 / (pieces * m.batches_after_first))
        again, pieces = cutting(m, partitions * windows, rows, in_batch)
        cost += again
        shuffled += a_report + m.bytes_piece * pieces
    cost += m.read + m.join + m.join_piece * pieces
    joins = partitions * windows
    return BatchRun(
        partitions=partitions,
        rows=1 / pieces,
        shuffled=reports * shuffled,
        statistics=joins * min(m.statistics["2 256"][0], 16 * reports / 2 / joins),
        core_hours=overhead(m) * (reports * cost + joins * (m.join_each + m.merge)) / 3.6e9,
        memory=reports / joins * m.memory,
    )


@dataclass(frozen=True)
class StreamRun:
    """What a day of a stream would take, with :data:`MESSAGE_REPORTS` in a message.

    Attributes:
        partitions: as many as give a window partitions of the size that bounded runs intend.
        rows: reports in a piece, in the mean.
        state: bytes of a window's reports when it ends.
        moved: bytes through the engine: to their key, into its state and out of it.
        core_hours: of the core that was measured, in a day.
        closing: seconds in which one key adds up what all partitions say when a window ends.
    """

    partitions: int
    rows: float
    state: float
    moved: float
    core_hours: float
    closing: float

    @property
    def dollars(self) -> float:
        """A day on Dataflow, without Pub/Sub."""
        hour = VCPU_HOUR_STREAMING + WORKER_GB * GB_HOUR_STREAMING
        return self.core_hours * hour + self.moved / 1e9 * STREAMED_GB


def stream_run(m: Measured, users: float, *, windows: int, bundle: float) -> StreamRun:
    """A day of users who tell two services, in so many windows; a bundle has so many reports of both."""
    reports = 2 * users
    partitions = math.ceil(reports / windows / partition_reports(m.avro))
    rows = bundle / filled(2 * partitions, bundle)
    slices = filled(partitions, MESSAGE_REPORTS) / MESSAGE_REPORTS
    # What goes into the state and comes out of it is taken to cost as much as what goes to its key.
    moving = 2 * (m.shuffle + m.shuffle_piece / rows)
    joining = m.first + m.join + (m.first_piece + m.join_piece) / rows
    cost = m.taken + m.stream_cut + m.stream_cut_slice * slices + moving + joining
    a_report = m.bytes_streamed + m.bytes_piece / rows
    return StreamRun(
        partitions=partitions,
        rows=rows,
        state=reports / windows * a_report,
        moved=3 * reports * a_report,
        core_hours=overhead(m) * (reports * cost + partitions * windows * (m.join_each + m.gain)) / 3.6e9,
        closing=partitions * m.gain / 1e6,
    )


def limits(m: Measured) -> list[tuple[float, str, str]]:
    """(users a day, where, what happens then), the lowest first."""
    room = WORKER_GB * 1e9 - m.process
    merged = room / (m.statistics["2 256"][0] * m.merge_memory)
    mixed = next(
        users
        for users in np.geomspace(1e6, 1e12, 1000).tolist()
        if batch_run(m, users, windows=24, mixed=True).rows * m.bytes_plain < m.bytes_piece
    )
    found = [
        (
            stream_options.PARTITIONS * room / m.memory / 2,
            f"stream, windows of a day, `--partitions {stream_options.PARTITIONS}` (the default)",
            "a partition, which is read and joined whole, no longer fits a worker; with windows of an hour "
            "the limit is 24 times the users. Set as many partitions as in the table above",
        ),
        (
            mixed,
            "batch, windows of an hour, files with all windows",
            "a piece has more bytes of schema than of reports. Write one file per hour, and let each hour's "
            "run read its own files",
        ),
        (
            MOST_MESSAGES / (CHECKPOINT_MILLISECONDS / 1000) * 86_400 / 2,
            "stream on Flink, one report per message",
            f"the one reader holds at most {MOST_MESSAGES:,} messages until the next checkpoint. Put many "
            "reports into each message",
        ),
        (
            DEAD_LETTER_SHARDS * room / m.letter_bytes / 2 / BAD,
            f"batch, {BAD:.0%} of the reports bad",
            f"dead letters are gathered for {DEAD_LETTER_SHARDS} files, each in the memory of one worker. "
            f"If every report is bad, the limit is {BAD:.0%} of these users",
        ),
        (
            batch.MOST_PARTITIONS * room / m.memory / 2,
            "batch, one window",
            f"one of {batch.MOST_PARTITIONS:,} partitions, the maximum, no longer fits a worker",
        ),
    ]
    if merged < batch.MOST_PARTITIONS:
        what = (
            f"{short(merged)} statistics of a window no longer fit the worker that merges them. The limit is "
            "higher on engines that put several partitions into a bundle"
        )
        where = "batch, two services joined, every partition a bundle of its own"
        found.append((merged * partition_reports(m.avro) / 2, where, what))
    return sorted(found)


# --- the page ---


def short(value: float) -> str:
    """Three digits that count."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:g}"


def rate(microseconds: float) -> str:
    """How many a second."""
    return short(1e6 / microseconds)


def size(value: float) -> str:
    """Bytes as MB, GB or TB."""
    unit, name = next(((u, n) for u, n in ((1e12, "TB"), (1e9, "GB")) if value >= u), (1e6, "MB"))
    return f"{short(value / unit)} {name}"


def table(heads: str, rows: Iterable[Sequence[str]]) -> str:
    """Rows below their heads, which bars part."""
    names = heads.split("|")
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [names, ["---"] * len(names), *rows])


def statistic_table(m: Measured) -> str:
    rows = []
    for services in (1, 2, 3):
        sizes = [found for name, found in m.statistics.items() if name.startswith(f"{services} ")]
        told = [f"{short(seen / 1e3)} ({short(max(seen, most) / 1e3)})" for seen, most in sizes]
        rows.append([f"{services} service{'s, joined' if services > 1 else ''}", *told])
    buckets = [name.split()[1] for name in m.statistics if name.startswith("1 ")]
    return table("KB of a statistic|" + "|".join(f"{n} buckets" for n in buckets), rows)


def batch_table(runs: dict[str, BatchRun]) -> str:
    rows = [
        (
            name, f"{run.partitions:,}", short(run.rows), size(run.memory), size(run.shuffled),
            size(run.statistics), short(run.core_hours), str(math.ceil(run.core_hours)),
            f"${run.dollars:.2f}", f"${run.core_hours * MACHINE_HOUR:.2f}",
        )
        for name, run in runs.items()
    ]  # fmt: skip
    heads = "batch|partitions|reports per piece|a partition in memory|reports shuffled|statistics, at most|"
    return table(heads + "core-hours|cores for one hour|on Dataflow|cores on Flink", rows)


def growth_table(m: Measured) -> str:
    rows = []
    for power in (8, 9, 10, 11):
        one, all_hours = batch_run(m, 10**power), batch_run(m, 10**power, windows=24, mixed=True)
        pieces = f"{short(one.rows)}; {short(all_hours.rows)}"
        hours = f"{short(one.core_hours)}; {short(all_hours.core_hours)}"
        rows.append((f"10^{power}", f"{one.partitions:,}", pieces, hours, size(one.memory)))
    heads = "users a day|partitions|reports per piece: one window; 24 in each file|core-hours: same two|"
    return table(heads + "a partition in memory", rows)


def stream_table(runs: dict[str, StreamRun]) -> str:
    rows = [
        (
            name, f"{run.partitions:,}", short(run.rows), size(run.state), short(run.core_hours / 24),
            f"${run.dollars:.2f}", f"${run.core_hours * MACHINE_HOUR:.2f}",
        )
        for name, run in runs.items()
    ]  # fmt: skip
    heads = "stream|`--partitions`|reports per piece|state of a window|cores, all day|Dataflow per day|"
    return table(heads + "cores on Flink", rows)


def page(m: Measured, users: float = 1e9) -> str:
    """The page; its prose is fixed, its numbers are not."""
    runs = {
        "one window": batch_run(m, users),
        "24 windows, each file with one": batch_run(m, users, windows=24),
        "24 windows, each file with all": batch_run(m, users, windows=24, mixed=True),
        "one window, report ids": batch_run(m, users, ids=True),
        "24 windows, report ids": batch_run(m, users, windows=24, ids=True),
    }
    one, _, mixed, ids, _ = runs.values()
    a_second = 2 * users / 86_400
    own = a_second * BUNDLE_SECONDS
    streams = {
        f"windows of {name}, {short(bundle)} reports per bundle": stream_run(
            m, users, windows=n, bundle=bundle
        )
        for name, n in (("an hour", 24), ("a day", 1))
        for bundle in (own, SMALL_BUNDLE)
    }
    hour, hour_small, day, day_small = streams.values()
    met = limits(m)
    limit_table = table(
        "users a day|where|what happens",
        [(f"{short(n / 1e6)} million", where, what) for n, where, what in met],
    )
    more_alone, more_native = (
        short((alone - m.taken) * overhead(m) * a_second / 1e6) for alone in (m.taken_alone, m.native_alone)
    )
    pubsub, pubsub_alone = (
        2 * 2 * users * each / 2**40 * PUBSUB_TIB for each in (m.message_bytes, m.message_bytes_alone)
    )
    heap = max(one.shuffled, mixed.shuffled) / one.partitions
    return f"""\
# Scale

Made by `python -m benchmarks.scale --write docs/scale.md` on {m.day}. Nothing here ran on a cloud: the \
first section was measured, and the script computed the rest from it. The figures leave out what an engine \
does besides: reading from a store, keeping state, starting machines.

In short: {users:,.0f} users a day with two services each take {short(one.core_hours)} core-hours in batch \
if each file has reports of one window, {short(mixed.core_hours)} if each file has reports of all hours, and \
{short(ids.core_hours)} with report ids. A stream with windows of an hour keeps \
{short(hour.core_hours / 24)} to {short(hour_small.core_hours / 24)} cores busy, depending on the number of \
reports per bundle. Use batch for windows of a day: a stream would need {size(day.state)} to \
{size(day_small.state)} of state. The first limit is: {met[0][1]}, from {short(met[0][0] / 1e6)} million \
users on; the others are [below](#which-limit-is-met-first).

## Measured
CPU time of one core ({m.processor}), each step in its own process, the best of three. Two services, a \
square wave and a piecewise, 256 buckets, keys of 16 bytes.

| step | reports a second | plus, for each | microseconds |
| --- | --- | --- | --- |
| read Avro, validate | {rate(m.read)} | | |
| cut by window and partition | {rate(m.cut)} | slice: the rows of a batch for one window and partition | \
{short(m.cut_slice)} |
| shuffle: encode, the local engine, decode | {rate(m.shuffle)} | piece: the reports of a bundle for one \
window and partition | \
{short(m.shuffle_piece)} |
| join, tally | {rate(m.join)} | piece; join | {short(m.join_piece)}; {short(m.join_each)} |
| compare report ids, if there are any | {rate(m.first)} | piece | {short(m.first_piece)} |
| merge statistics | | statistic, in batch; in a pane | {short(m.merge)}; {short(m.gain)} |
| dead letters | {rate(m.letter)} | | |
| stream: decode messages of {MESSAGE_REPORTS:,}, validate | {rate(m.taken)} | | |
| stream: messages of one, ldpbeam's source | {rate(m.taken_alone)} | | |
| stream: messages of one, on Dataflow | {rate(m.native_alone)} | | |
| stream: cut by window and partition | {rate(m.stream_cut)} | slice | {short(m.stream_cut_slice)} |

A whole run takes {short(overhead(m))} times the sum of its steps; the figures below include this factor. A \
slice or a piece costs the same with one report as with a thousand, so at scale the number of reports per \
piece decides. A run of 2,000,000 reports in {CHECKED_PARTITIONS:,} partitions took {short(m.checked)} s; \
these numbers predict {short(check(m))} s.

| bytes of a report | |
| --- | --- |
| in fixed-width Avro | {short(m.avro)} |
| in the shuffle, of one service or of several that are joined | {short(m.bytes_plain)}; with a report id \
{short(m.bytes_ids)}, twice: by id, by user |
| per piece in addition: schema, key | {short(m.bytes_piece)} |
| in a message of {MESSAGE_REPORTS:,}; in a message of one | {short(m.message_bytes)}; \
{short(m.message_bytes_alone)} |
| in a stream's state, with an id made from the message's id | {short(m.bytes_streamed)} |
| in memory while its partition is joined | {short(m.memory)}, plus {short(m.process / 1e6)} MB for the \
process |
| a dead letter without its record | {short(m.letter_bytes)} |

{statistic_table(m)}

The statistics hold {partition_reports(m.avro) // 2:,} users; the maximum is in brackets. The study alone \
determines the maximum, unless it sets `joint_buckets`: then a joint histogram has at most one cell per \
user. Merging 400 statistics takes {short(m.merge_memory)} times their bytes of memory.

## {users:,.0f} users a day, two services each
That is {size(2 * users * m.avro)} of Avro, {short(a_second)} reports a second.

{batch_table(runs)}

A partition is {batch.PARTITION_BYTES / 2**20:g} MiB of input, and there are {batch.FEWEST_PARTITIONS} to \
{batch.MOST_PARTITIONS:,}, whatever the windows. A bundle is assumed to be one range of \
{RANGE_BYTES / 2**20:g} MiB; engines with larger bundles make larger pieces. The number of pieces grows with \
bundles times partitions, so with the square of the input, until there are {batch.MOST_PARTITIONS:,} \
partitions:

{growth_table(m)}

{stream_table(streams)}

`--partitions` is chosen so that a window's partitions have the same size as in batch. ldpbeam's source \
reads {short(own)} reports in {BUNDLE_SECONDS:g} s, on Flink; the bundles of Dataflow are not known here. \
Messages of {MESSAGE_REPORTS:,} reports cost ${pubsub:.2f} a day at Pub/Sub; messages of one report cost \
${pubsub_alone:.2f}, and take {more_alone} cores more, on Dataflow {more_native}. Each early pane joins all \
reports of its window so far, so k early panes make k/2 joins more.

In batch on Flink, the pieces of a key are gathered in the heap of a task manager (Beam's issue 18848), \
{size(heap)} here. In a stream, each checkpoint, every {CHECKPOINT_MILLISECONDS / 1000:g} s, writes all \
state in the heap, up to {size(hour.state)} with windows of an hour; this requires the RocksDB backend with \
incremental checkpoints.

Prices are constants of the script. Dataflow: ${VCPU_HOUR_BATCH} (stream ${VCPU_HOUR_STREAMING}) per vCPU \
and hour, ${GB_HOUR_BATCH} per GB and hour, {WORKER_GB} GB per vCPU, ${SHUFFLED_GB} per GB shuffled, counted \
written and read (stream ${STREAMED_GB} per GB moved). These are the prices of us-central1 that Beam 2.77 \
takes from cloud.google.com/dataflow/pricing in `dataflow_cost_consts.py`. Pub/Sub: ${PUBSUB_TIB:g} per TiB \
published, and again delivered (cloud.google.com/pubsub/pricing, September 2026). For Flink, \
${MACHINE_HOUR} per core and hour is an example. A core-hour is priced as a vCPU-hour, although a vCPU is a \
hardware thread and does less. Disks, stores and reductions are left out.

## Which limit is met first
A worker has {WORKER_GB} GB per core and works on one partition at a time. A worker that works on several \
at once reaches the memory limits that many times earlier.

{limit_table}

These are no limits: the driver (it opens each input file once, sixteen at a time, and solves statistics \
on its own cores), messages (10 MB, Pub/Sub's maximum, are {short(1e7 / m.message_bytes)} reports), the \
accounting (one key, a few counts per bundle), and what one key adds up when a window of a stream ends \
({short(hour.closing)} s with windows of an hour). But a single worker reads the footers of all Parquet \
files, and gzipped JSON lines are not split.

## What grows with users, and what does not
| stage | key | content of a key | with more users |
| --- | --- | --- | --- |
| `DropDuplicateIds` | attribute, partition of ids | its reports that have ids, of all windows | more keys, \
to {batch.MOST_PARTITIONS:,}; then more in each |
| `GroupUsers` | attribute, partition of users, windows that start within one window size | its reports of \
these windows | same as `DropDuplicateIds` |
| `Aggregate` | attribute, group, window | one statistic, merged from those of the bundles | more to merge, \
like partitions |
| `CapGroups` | attribute, window | one statistic per group, before the cap | the same; more with groups |
| snapshots, estimates | attribute, window | `at_most` + 1 statistics | the same |
| dead letters | one of {DEAD_LETTER_SHARDS} | its dead letters, sorted | more, with bad reports |
| accounting | a counter's name | a number | the same |
| stream: `JoinWindows` | attribute, partition, window | its reports until the allowed lateness has \
passed, and the statistics last emitted; a mark for {REMEMBERED_WINDOWS} windows more | more, unless \
`--partitions` is raised |
| stream: `FirePanes` | attribute, window | one statistic per group, for {REMEMBERED_WINDOWS} windows more | \
the same; more with groups |
| stream: dead letters; accounting | one | those of a minute; a few counts | more, with bad reports |
| stream: the source | a reader | messages not yet acknowledged, a journal of windows | the same |

No key, window or accumulator belongs to a single user. Users are hashed to partitions ([decision \
5](decisions/5-partitions.md)). A partition is joined over columns and yields a statistic whose size the \
study determines. Statistics add up, so after the join nothing depends on the number of users. Report ids \
are stored as long as reports: in a stream, until the window has expired. In a stream, sliding windows store \
a report as many times as they overlap; in batch, twice at most. A field with very many groups makes one \
statistic per partition and group, before the cap ([decision 4](decisions/4-groups.md)).

<!-- measured: {json.dumps(asdict(m))} -->
"""


def measured_in(text: str) -> Measured:
    """What a page was made of.

    Raises:
        ValueError: if it does not say.
    """
    found = re.search(r"<!-- measured: (.+) -->", text)
    if found is None:
        raise ValueError("the page does not say what was measured: make it with --write")
    return Measured(**json.loads(found[1]))


def main() -> None:
    """Measure, or take what was measured, and compute."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--measured", type=Path, help="a page whose constants are used again")
    parser.add_argument("--write", type=Path, help="write the page here too")
    options = parser.parse_args()
    measured = measured_in(options.measured.read_text(encoding="utf-8")) if options.measured else measure()
    show(page(measured).splitlines(), options.write)


if __name__ == "__main__":
    main()
