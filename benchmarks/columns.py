"""What a report costs on its way from bytes to a histogram, beside bare loops over the same reports.

    python -m benchmarks.columns [--reports 200000] [--write FILE]

A ratio is the median of five of two processor times, or of two peaks of memory, measured one after the other;
seeds are fixed. The stages of a batch run are called one after the other, as the library calls them: what it
costs to start Beam is a row of its own. A bare loop takes the payload of each record, and counts it with the
same function of the mechanism.
"""

from __future__ import annotations

import argparse
import io
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.pages import show
from ldpbeam.domains import Floats
from ldpbeam.schemas.messages.binary import ARROW, Message
from ldpbeam.schemas.messages.decode import decode_messages
from ldpbeam.schemas.reports.payloads import payload_column
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.statistics import Answers, tally
from ldpbeam.transforms.outputs.letter_files import write_letters
from ldpbeam.transforms.reports.batch_coder import BatchCoder
from ldpbeam.transforms.reports.dead_letters import PLAIN, disclosed
from ldpbeam.transforms.reports.validation import Validation, wanted_columns
from ldpbeam.transforms.sources.files import ReportFile, sniff, split
from ldpbeam.transforms.sources.read import read_range
from ldpbeam.transforms.tally import tally_of

TEXT = """
study: columns
duplicates: keep
attributes:
  minutes:
    domain: {numeric: [0, 180]}
    services: {maps: {mechanism: square_wave, epsilon: 1.0}}
    estimates: {shape: {estimator: em}}
  page:
    domain: {categories: [PAGES]}
    services: {oue: {mechanism: oue, epsilon: 1.0}, sue: {mechanism: sue, epsilon: 1.0}}
    estimates: {shares: {estimator: em}}
""".replace("PAGES", ", ".join(f"page-{number}" for number in range(256)))
STUDY = parse_study(TEXT)
ROW = "| {} | {} | {:.2f} | {} |"
ROUNDS, START = 5, 1_795_168_800_000
#: The environment of a process: Python keeps what it compiles, as pip compiles what it installs.
COMPILED = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
#: Reports that no client of ``maps`` sends.
IMPOSSIBLE = 9.5


def processor(function: Callable[[], Any]) -> float:
    """The seconds that all threads of this process compute for a function."""
    started = time.process_time()
    function()
    return time.process_time() - started


def whole(*command: str) -> tuple[float, float]:
    """The processor seconds of a command in a process of its own, and the most MB that it holds."""
    quiet = subprocess.DEVNULL
    process = subprocess.Popen([sys.executable, *command], stdout=quiet, stderr=quiet, env=COMPILED)
    _, _, used = os.wait4(process.pid, 0)
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def row(what: str, peer: str, wanted: str, ours: Callable[[], Any], theirs: Callable[[], Any]) -> str:
    """A row of the table: how many times the peer's processor time ours is."""
    ratios = [processor(ours) / processor(theirs) for _ in range(ROUNDS)]
    return ROW.format(what, peer, statistics.median(ratios), wanted)


def bit_vectors(service: str, reports: int) -> Iterator[str]:
    """Rows of a mechanism with 256 categories: perturbed, and counted as arrays and as a decoded batch."""
    attribute, values = STUDY.attribute("page"), np.random.default_rng(0).integers(0, 256, reports)
    (index,) = attribute.versions_of([service])
    mechanism: Any = attribute.versions[index].mechanism
    payloads = mechanism.perturb(values, np.random.default_rng(1))
    batch, packed = (
        batch_of(payload_column(payloads), "page", service),
        payloads.view("u1").reshape(reports, -1),
    )
    answers = [Answers(index, np.arange(reports), payloads)]

    def perturbed() -> Any:
        return mechanism.perturb(values, np.random.default_rng(1))

    def drawn() -> Any:
        bits = np.random.default_rng(1).random((reports, 256)) < mechanism.support_probabilities[1]
        return np.packbits(bits, axis=1, bitorder="little")

    def summed() -> Any:
        return np.unpackbits(packed, axis=1, bitorder="little").sum(axis=0)

    name, peer = f"`{service}`, 256 categories", "NumPy's sum of unpacked bits"
    yield row(f"{name}: `perturb`", "NumPy draws and packs as many bits", "1.5", perturbed, drawn)
    yield row(f"{name}: `perturb`", peer, "1.5", perturbed, summed)
    yield row(
        f"{name}: `tally`", peer, "1.5", lambda: tally(attribute, reports, answers, checked=True), summed
    )
    yield row(f"{name}: validated and tallied", peer, "1.5", lambda: tally_of(STUDY, [batch]), summed)


def batch_of(payloads: pa.Array, attribute: str, service: str) -> pa.RecordBatch:
    """A decoded batch of reports of one service."""
    places = np.arange(len(payloads))
    users = pa.array(places.astype("S")).cast(pa.binary())
    columns = {
        "user_id": users,
        "event_time": START + places,
        "payload": payloads,
        "position": places,
        "row": places,
    }
    batch = pa.RecordBatch.from_pydict(columns)
    return batch.replace_schema_metadata({"attribute": attribute, "service": service, "file": "reports.avro"})


def table_of(payloads: Floats) -> pa.Table:
    """Reports to one service, with text for names."""
    users = [f"user-{number}" for number in range(len(payloads))]
    times = START + np.arange(len(payloads))
    return pa.table(
        {"user_id": users, "attribute": ["minutes"] * len(users), "event_time": times, "payload": payloads}
    )


def formats(reports: int, folder: Path) -> Iterator[str]:
    """Rows of each format, from the bytes of a file or a message to the histogram."""
    columns, attribute = wanted_columns(STUDY, None, "maps"), STUDY.attribute("minutes")
    mechanism = attribute.versions[0].mechanism
    table = table_of(mechanism.perturb(np.random.default_rng(0).random(reports), np.random.default_rng(1)))
    avro, lines, parquet = (folder / f"reports.{kind}" for kind in ("avro", "jsonl", "parquet"))
    kinds = zip(table.schema.names, ("string", "string", "long", "double"), strict=True)
    fields = [{"name": name, "type": kind} for name, kind in kinds]
    with avro.open("wb") as stream:
        fastavro.writer(stream, {"type": "record", "name": "Report", "fields": fields}, table.to_pylist())
    lines.write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in table.to_pylist()))
    pq.write_table(table, parquet)
    messages = [arrow_message(number, part) for number, part in enumerate(table.to_batches(10_000))]

    def counted(payloads: Any) -> Any:
        return mechanism.histogram(np.asarray(payloads), attribute.buckets)

    def file(path: Path) -> Any:
        report_file: Any = sniff(str(path), path.stat().st_size)
        assert isinstance(report_file, ReportFile)
        batches: Any = (batch for part in split(report_file) for batch in read_range(part, columns))
        return tally_of(STUDY, batches)

    def by_fastavro() -> Any:
        with avro.open("rb") as stream:
            return counted([record["payload"] for record in fastavro.reader(stream)])

    def by_orjson() -> Any:
        with lines.open("rb") as stream:
            return counted([orjson.loads(line)["payload"] for line in stream])

    def by_arrow() -> Any:
        return [counted(pa.ipc.open_stream(message.data).read_all()["payload"]) for message in messages]

    def decoded() -> Any:
        batches: Any = decode_messages(messages, columns)
        return tally_of(STUDY, batches)

    def read() -> Any:
        return counted(pq.read_table(parquet)["payload"])

    yield row("Avro with strings", "a loop over `fastavro.reader`", "1", lambda: file(avro), by_fastavro)
    yield row("JSON lines", "a loop over `orjson.loads`", "1", lambda: file(lines), by_orjson)
    yield row("Parquet", "`pyarrow.parquet.read_table`", "1.5", lambda: file(parquet), read)
    yield row("Arrow messages of 10,000 reports", "`pyarrow.ipc.open_stream`", "1.5", decoded, by_arrow)


def arrow_message(number: int, batch: pa.RecordBatch) -> Message:
    """A message of an Arrow stream."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return Message(str(number), sink.getvalue(), ARROW)


def dead_letters(reports: int, folder: Path) -> Iterator[str]:
    """Rows of impossible reports beside as many good ones."""
    good = batch_of(pa.array(np.random.default_rng(0).random(reports)), "minutes", "maps")
    bad, coder = batch_of(pa.array(np.full(reports, IMPOSSIBLE)), "minutes", "maps"), BatchCoder()

    def validated(batch: pa.RecordBatch) -> list[bytes]:
        result = Validation(STUDY).validate(batch)
        letters = [disclosed(part, PLAIN) for part in result.letters]
        return [coder.encode(part) for part in (*result.reports, *letters)]

    encoded = validated(bad)

    def to_file() -> str:
        return write_letters(str(folder / "letters"), 0, [coder.decode(part) for part in encoded])

    def theirs() -> Any:
        return validated(good)

    yield row("dead letters, up to the shuffle", "good reports", "5", lambda: validated(bad), theirs)
    yield row("dead letters, from the shuffle to a file", "good reports, up to it", "5", to_file, theirs)


#: The packages that every estimate needs.
NEEDED = "numpy, pyarrow, scipy.sparse.linalg, pydantic"


def commands(reports: int, folder: Path) -> Iterator[str]:
    """Rows of whole commands: the start of a small run, and the memory of a run of impossible reports."""
    (folder / "study.yaml").write_text(TEXT)
    shared = "-m", "ldpbeam", "estimate", "--study", str(folder / "study.yaml"), "--service", "maps"

    def estimate(name: str, payloads: Floats) -> tuple[float, float]:
        path = folder / f"{name}.parquet"
        pq.write_table(table_of(payloads), path, row_group_size=200_000)
        return whole(*shared, "--input", str(path), "--output", str(folder / f"out-{name}"), "--overwrite")

    # The first pair compiles.
    pairs = [
        (estimate("ten", np.full(10, 0.5))[0], whole("-c", f"import {NEEDED}")[0]) for _ in range(ROUNDS + 1)
    ][1:]
    more, times = (
        statistics.median(by(*pair) for pair in pairs) for by in (float.__sub__, float.__truediv__)
    )
    yield ROW.format(
        "`estimate` on ten reports", f"`import {NEEDED}`", times, f"0.4 s more; {more:.2f} s more"
    )
    few, many = (estimate(f"bad-{n}", np.full(n, IMPOSSIBLE))[1] for n in (reports, 5 * reports))
    yield ROW.format(
        f"memory of `estimate`, {5 * reports:,} impossible reports", f"{reports:,} of them", many / few, "1"
    )


def page(reports: int) -> Iterator[str]:
    """The page's lines."""
    yield "| what | peer | ratio | wanted |"
    yield "| --- | --- | --- | --- |"
    with tempfile.TemporaryDirectory() as folder:
        yield from bit_vectors("oue", reports // 2)
        yield from bit_vectors("sue", reports // 2)
        yield from formats(reports, Path(folder))
        yield from dead_letters(reports, Path(folder))
        yield from commands(reports, Path(folder))


def main() -> None:
    """Measure, print, and write where asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--reports", type=int, default=200_000)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    show(page(options.reports), options.write)


if __name__ == "__main__":
    main()
