"""The programs whose speed is compared: a run of ldpbeam, and its peers, over the same files."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Integers
from ldpbeam.folders.written import snapshots_of
from ldpbeam.inputs import files as inputs
from ldpbeam.pipelines.graphs import batch
from ldpbeam.pipelines.simulated.report_files import SentReports, write_reports
from ldpbeam.pipelines.spool.batch import tally_here
from ldpbeam.schemas.reports.casts import binary_of_width
from ldpbeam.schemas.reports.columns import ATTRIBUTE_KEY, SERVICE_KEY
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
#: Of one service, whose reports are not compared.
ALONE = """
study: alone
duplicates: keep
attributes:
  minutes:
    domain: {numeric: [0, 180]}
    services: {maps: {mechanism: square_wave, epsilon: 1.0}}
    estimates: {shape: {estimator: em}}
windows: {size: 1h}
"""
#: All reports are of the hour that begins then: 2026-11-20T10:00:00Z, in epoch milliseconds.
START, HOUR = 1_795_168_800_000, 3_600_000
#: One user of so many sends another report to each service.
REPEATED = 100
#: The peer's SQL: the reports of a service, of which impossible ones are left out.
REPORTS = """\
select user_id, event_time, least(floor((payload - {low!r}) * {scale!r}), {last})::int as bucket
from '{folder}/minutes.{service}.parquet' where payload between {low!r} and {high!r}"""
#: A report that a user repeats counts again.
PLAIN = """\
with maps as ({maps}), taxi as ({taxi}), survey as ({survey})
select maps.bucket, taxi.bucket, survey.bucket, count(*)
from maps full join taxi using (user_id) full join survey using (user_id) group by all"""
#: The first report of a user and service counts, and the others are counted as dropped.
EQUAL = """\
with reports as (
  select *, 0 as service from ({maps}) union all
  select *, 1 as service from ({taxi}) union all select *, 2 as service from ({survey})
), users as (
  select arg_min(bucket, event_time) filter (service = 0) as maps,
    arg_min(bucket, event_time) filter (service = 1) as taxi,
    arg_min(bucket, event_time) filter (service = 2) as survey, count(*) as sent
  from reports group by user_id
)
select maps, taxi, survey, count(*),
  sum(sent - (maps is not null)::int - (taxi is not null)::int - (survey is not null)::int) as dropped
from users group by all"""
ONE_SERVICE = "select bucket, count(*) from ({maps}) group by bucket"


class Input(NamedTuple):
    """What a comparison reads.

    Attributes:
        users: how many send reports to each service.
        ids: what user ids are: ``bytes`` (16 of them), ``uuid`` or ``e-mail`` (text).
        kind: the format of the files.
        study: the study of the reports.
    """

    users: int
    ids: str = "bytes"
    kind: str = "parquet"
    study: str = STUDY

    @property
    def attribute(self) -> Attribute:
        """What is counted."""
        return parse_study(self.study).attribute("minutes")

    @property
    def reports(self) -> int:
        """How many reports there are."""
        return (self.users + self.users // REPEATED) * len(self.attribute.services)


def ids_of(kind: str, users: int) -> pa.Array:
    """A user id for each of some people."""
    data = np.random.default_rng(1).integers(0, 256, (users, 16), dtype=np.uint8)
    if kind == "bytes":
        return pc.cast(binary_of_width(data), pa.binary(16))
    if kind == "uuid":
        digits = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
        text = np.stack((digits[data >> 4], digits[data & 15]), axis=2).reshape(users, 32)
        parts = np.insert(text, [8, 12, 16, 20], ord("-"), axis=1)
        return pc.cast(binary_of_width(np.ascontiguousarray(parts)), pa.string())
    numbers = pc.cast(pa.array(data.view("<u4")[:, 0]), pa.string())
    places = pc.cast(pa.array(np.arange(users)), pa.string())
    return pc.binary_join_element_wise("person.", numbers, places, "@mail.example.org", "")


def write_inputs(folder: Path, given: Input) -> None:
    """The reports of people to three services in random order; some people send two."""
    folder.mkdir(parents=True)
    attribute, rng = given.attribute, np.random.default_rng(0)
    values, ids = rng.beta(2, 5, given.users), ids_of(given.ids, given.users)
    for version in attribute.versions:
        people = np.concatenate(
            (np.arange(given.users), rng.permutation(given.users)[: given.users // REPEATED])
        )
        # No two reports of a person to a service have the same time.
        times = START + 2 * rng.integers(0, HOUR // 2, len(people)) + (np.arange(len(people)) >= given.users)
        order = rng.permutation(len(people))
        payloads: Any = version.mechanism.perturb(values[people], rng)
        users = ids.take(pa.array(people[order]))
        sent = SentReports("minutes", version.service, users, times[order], payloads[order], {})
        _write(folder, sent, given)


def _write(folder: Path, sent: SentReports, given: Input) -> None:
    path = folder / f"minutes.{sent.service}.{given.kind}"
    metadata = {ATTRIBUTE_KEY: "minutes", SERVICE_KEY: sent.service}
    if given.kind == "avro" and given.ids == "bytes":
        write_reports(folder, sent, "avro")
        return
    table = pa.table({"user_id": sent.users, "event_time": sent.times, "payload": sent.payloads})
    if given.kind == "parquet":
        pq.write_table(table.replace_schema_metadata(metadata), path)
        return
    kinds = zip(table.schema.names, ("string", "long", "double"), strict=True)
    fields = [{"name": name, "type": kind} for name, kind in kinds]
    with path.open("wb") as stream:
        records = (record for part in table.to_batches(100_000) for record in part.to_pylist())
        fastavro.writer(
            stream, {"type": "record", "name": "Report", "fields": fields}, records, metadata=metadata
        )


def digest(cells: Integers, counts: Integers) -> str:
    """A short name of a joint histogram."""
    return hashlib.sha256(cells.astype("<i8").tobytes() + counts.astype("<i8").tobytes()).hexdigest()[:12]


def run_ldpbeam(folder: Path, given: Input) -> str:
    """What ``ldpbeam estimate`` does up to the snapshot."""
    study: Study = parse_study(given.study)
    files = inputs.find_input([f"{folder}/*.{given.kind}"], "stop")
    with tempfile.TemporaryDirectory() as output, tempfile.TemporaryDirectory() as waiting:
        job = batch.BatchJob(study, output, "benchmark", files, wanted_columns(study, None, None))
        tally_here(job, Path(waiting), lambda *_: None)
        (snapshot,) = snapshots_of(job)
    statistic = snapshot.statistic
    if statistic.users is None:
        (histogram,) = statistic.histograms
        return digest(np.arange(len(histogram)), histogram)
    return digest(statistic.joint_cells, statistic.joint_counts)


def sql(query: str, folder: Path, attribute: Attribute) -> str:
    """A query over the reports in a folder."""
    services = {}
    for index, version in enumerate(attribute.versions):
        mechanism: Any = version.mechanism
        low, high = mechanism.report_range
        cells = mechanism.cells(
            attribute.joint_resolution(index) if attribute.joint_services else attribute.buckets
        )
        services[version.service] = REPORTS.format(
            low=low,
            high=high,
            scale=cells / (high - low),
            last=cells - 1,
            folder=folder,
            service=version.service,
        )
    return query.format(**services)


def run_duckdb(query: str, folder: Path, given: Input) -> str:
    """A query of DuckDB."""
    import duckdb

    attribute = given.attribute
    connection = duckdb.connect(config={"threads": 1})
    columns = connection.execute(sql(query, folder, attribute)).fetchnumpy().values()
    *digits, counts = [np.ma.filled(column, -1).astype(np.int64) for column in columns][
        : len(attribute.versions) + 1
    ]
    if query is ONE_SERVICE:
        order = np.argsort(digits[0])
        return digest(digits[0][order], counts[order])
    cells = np.zeros(len(counts), dtype=np.int64)
    for digit, stride in zip(digits, np.cumprod((1, *attribute.joint_shape)), strict=False):
        cells += stride * (1 + digit)
    order = np.argsort(cells)
    # Nobody is not counted.
    order = order[cells[order] > 0]
    return digest(cells[order], counts[order])


def run_bare(folder: Path, given: Input) -> str:
    """A loop over the blocks of fastavro, and a join by sorting in NumPy."""
    attribute = given.attribute
    keys: list[NDArray[Any]] = []
    answers, times = [], []
    for service in attribute.services:
        (path,) = folder.glob(f"minutes.{service}.*")
        with path.open("rb") as file:
            parts = list(_columns_of(fastavro.block_reader(file)))
        users, when, payloads = (np.concatenate(column) for column in zip(*parts, strict=True))
        keys.append(users)
        times.append(when)
        answers.append(payloads)
    every = np.concatenate(keys)
    numbers = np.unique(every, return_inverse=True)[1]
    ends = np.cumsum([len(part) for part in answers])
    joined = []
    for version, (end, when, payloads) in enumerate(zip(ends, times, answers, strict=True)):
        rows = numbers[end - len(when) : end]
        order = np.lexsort((when, rows))
        first = order[np.concatenate(([True], rows[order][1:] != rows[order][:-1]))]
        joined.append(Answers(version, rows[first], payloads[first]))
    statistic = tally(attribute, int(numbers.max()) + 1, joined)
    return digest(statistic.joint_cells, statistic.joint_counts)


def _columns_of(blocks: Any) -> Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
    """The ids, times and payloads of each block."""
    for block in blocks:
        rows = list(block)
        ids, times, payloads = ([row[name] for row in rows] for name in ("user_id", "event_time", "payload"))
        yield np.array(ids, "S"), np.array(times), np.array(payloads)


CONTENDERS: dict[str, Callable[[Path, Input], str]] = {
    "ldpbeam": run_ldpbeam,
    "DuckDB, plain query": lambda folder, given: run_duckdb(PLAIN, folder, given),
    "DuckDB, equal query": lambda folder, given: run_duckdb(EQUAL, folder, given),
    "DuckDB, one service": lambda folder, given: run_duckdb(ONE_SERVICE, folder, given),
    "loop over fastavro's blocks": run_bare,
}
