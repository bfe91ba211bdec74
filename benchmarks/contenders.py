"""The programs whose speed is compared: a run of ldpbeam, and its peers, over the same files."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import apache_beam as beam
import numpy as np
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from rich.console import Console

from ldpbeam.answers.people import People
from ldpbeam.attributes import Attribute
from ldpbeam.domains import Integers
from ldpbeam.folders.written import snapshots_of
from ldpbeam.inputs import files as inputs
from ldpbeam.mechanisms import NumericMechanism
from ldpbeam.pipelines.graphs import batch
from ldpbeam.pipelines.graphs import run as graph
from ldpbeam.pipelines.simulated.perturb import simulate
from ldpbeam.pipelines.simulated.report_files import write_reports
from ldpbeam.runners import engines
from ldpbeam.schemas.encodings import avro
from ldpbeam.schemas.files.avro_blocks import read_blocks
from ldpbeam.schemas.files.avro_headers import read_header
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.statistics import Answers, tally
from ldpbeam.study import Study
from ldpbeam.transforms.reports.validation import wanted_columns

STUDY = """
study: throughput
attributes:
  minutes:
    domain: {numeric: [0, 180]}
    services:
      maps:   {mechanism: square_wave, epsilon: 1.0}
      taxi:   {mechanism: piecewise, epsilon: 0.5}
      survey: {mechanism: stochastic_rounding, epsilon: 0.8}
    estimates:
      together: {estimator: ule}
windows: {size: 1h}
"""
#: All reports are of the hour that begins then: 2026-11-20T10:00:00Z, in epoch milliseconds.
START, HOUR = 1_795_168_800_000, 3_600_000


def study_and_attribute() -> tuple[Study, Attribute]:
    """What is counted."""
    study = parse_study(STUDY)
    return study, study.attribute("minutes")


def write_inputs(folder: Path, users: int) -> None:
    """Reports of ``users`` people to three services."""
    study, attribute = study_and_attribute()
    values = 180 * np.random.default_rng(0).beta(2, 5, users)
    people = People(values, None, None, None, 0, 0)
    folder.mkdir(parents=True)
    for sent in simulate(
        study, attribute, people, services=attribute.services, versions={}, start=START, spread=HOUR, seed=0
    ):
        write_reports(folder, sent, "avro")


def digest(cells: Integers, counts: Integers) -> str:
    """A short name of a joint histogram."""
    return hashlib.sha256(cells.astype("<i8").tobytes() + counts.astype("<i8").tobytes()).hexdigest()[:12]


def run_ldpbeam(folder: Path, workers: int = 1) -> str:
    """The stream of ``ldpbeam estimate``, up to the snapshot, in so many worker processes."""
    study, _ = study_and_attribute()
    files = inputs.find_input([f"{folder}/*.avro"], "stop")
    with tempfile.TemporaryDirectory() as output, tempfile.TemporaryDirectory() as spill:
        engine = engines.Engine(FnApiRunner(), (), here=True, spill=spill)
        job = batch.BatchJob(study, output, "benchmark", files, wanted_columns(study, None, None))
        several = ["--direct_running_mode=multi_processing", f"--direct_num_workers={workers}"]
        pipeline = graph.assemble(job, engine, several if workers > 1 else [])
        graph.run_pipeline(pipeline, Console(quiet=True), engine.here)
        (snapshot,) = snapshots_of(job)
    return digest(snapshot.statistic.joint_cells, snapshot.statistic.joint_counts)


def run_bare(folder: Path) -> str:
    """Block reads and a sort join in one process, without Beam."""
    _, attribute = study_and_attribute()
    keys, payloads = [], []
    for service in attribute.services:
        parts = []
        for path in sorted(folder.glob(f"minutes.{service}.*.avro")):
            with path.open("rb") as file:
                header = read_header(file)
                dtype = avro.fixed_dtype(header.writer_schema)
                assert dtype is not None
                blocks = read_blocks(file, header, 0, path.stat().st_size)
                parts += [np.frombuffer(block.data, dtype=dtype) for block in blocks]
        records = np.concatenate(parts)
        keys.append(np.ascontiguousarray(records["user_id"]).view("<u8").reshape(-1, 2))
        payloads.append(records["payload"].copy())
    every = np.concatenate(keys)
    order = np.lexsort((every[:, 1], every[:, 0]))
    ordered = every[order]
    new = np.concatenate(([True], (ordered[1:] != ordered[:-1]).any(axis=1)))
    rows = np.empty(len(every), dtype=np.int64)
    rows[order] = np.cumsum(new) - 1
    ends = np.cumsum([len(part) for part in payloads])
    answers = [
        Answers(version, rows[end - len(part) : end], part)
        for version, (end, part) in enumerate(zip(ends, payloads, strict=True))
    ]
    statistic = tally(attribute, int(rows.max()) + 1, answers)
    return digest(statistic.joint_cells, statistic.joint_counts)


def run_per_record(folder: Path, windows: bool = True) -> str:
    """One element a record: what a Beam pipeline is when it is written the plain way."""
    study, attribute = study_and_attribute()
    assert study.windows is not None
    strides = np.concatenate(([1], np.cumprod(attribute.joint_shape)))[:-1].tolist()
    mechanisms = {v.service: cast(NumericMechanism, v.mechanism) for v in attribute.versions}
    low = {service: mechanism.report_range[0] for service, mechanism in mechanisms.items()}
    high = {service: mechanism.report_range[1] for service, mechanism in mechanisms.items()}
    buckets = attribute.joint_buckets
    assert isinstance(buckets, int)
    cells = {service: mechanism.cells(buckets) for service, mechanism in mechanisms.items()}
    hour = beam.window.FixedWindows(study.windows.size / 1000)

    def report(record: dict[str, Any], service: str) -> Iterator[Any]:
        keyed = record["user_id"], (record["event_time"], record["payload"])
        if not windows:
            yield keyed
        elif low[service] <= record["payload"] <= high[service]:
            yield beam.window.TimestampedValue(keyed, record["event_time"] / 1000)

    def cell(element: tuple[bytes, dict[str, list[tuple[float, float]]]]) -> tuple[int, int]:
        total = 0
        for service, stride in zip(attribute.services, strides, strict=True):
            reports = sorted(element[1][service])
            if reports:
                place = (reports[0][1] - low[service]) * (cells[service] / (high[service] - low[service]))
                total += stride * (1 + min(max(int(place), 0), cells[service] - 1))
        return total, 1

    with tempfile.TemporaryDirectory() as output:
        with beam.Pipeline(runner=FnApiRunner()) as pipeline:
            by_service = {
                service: pipeline
                | f"Read {service}" >> beam.io.ReadFromAvro(f"{folder}/minutes.{service}.*.avro")
                | f"Report {service}" >> beam.FlatMap(report, service)
                | f"Window {service}" >> beam.WindowInto(hour if windows else beam.window.GlobalWindows())
                for service in attribute.services
            }
            _ = (
                by_service
                | beam.CoGroupByKey()
                | "Cell" >> beam.Map(cell)
                | beam.CombinePerKey(sum)
                | "Text" >> beam.Map(lambda pair: f"{pair[0]} {pair[1]}")
                | beam.io.WriteToText(f"{output}/cells", num_shards=1, shard_name_template="")
            )
        counted = np.loadtxt(f"{output}/cells", dtype=np.int64)
    counted = counted[np.argsort(counted[:, 0])]
    return digest(counted[:, 0], counted[:, 1])


CONTENDERS: dict[str, Callable[[Path], str]] = {
    "ldpbeam": run_ldpbeam,
    "ldpbeam, two workers": lambda folder: run_ldpbeam(folder, workers=2),
    "bare script": run_bare,
    "per record": run_per_record,
    "per record, no windows": lambda folder: run_per_record(folder, windows=False),
}
