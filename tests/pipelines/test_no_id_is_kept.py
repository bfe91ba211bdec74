"""What was a user id is in no file of a run without users, while it runs and after it was killed."""

from __future__ import annotations

import base64
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.guessed_ids import START
from support.waiting import wait_until
from support.watched_ids import FORMS, PREFIX, RAW, Watched, reports, seen_in, shown_by, user_id

STUDY = """\
study: nobody
users: none
attributes:
  minutes:
    domain: {numeric: [0, 180]}
    buckets: 32
    services: {maps: {mechanism: square_wave, epsilon: 1.0}, taxi: {mechanism: piecewise, epsilon: 0.5}}
windows: {size: 1h, allowed_lateness: 10m}
groups: {field: region}
intervals: false
"""
#: Ids where they do not belong, in records that are none.
BAD = [
    {"user_id": user_id(1), "attribute": user_id(3), "service": "maps", "payload": 0.5},
    {"user_id": user_id(2), "attribute": "minutes", "service": user_id(4), "payload": 0.5},
    {"user_id": user_id(5), "attribute": "minutes", "service": "maps", "payload": user_id(5)},
    {"user_id": user_id(6), "attribute": "minutes", "service": "maps"},
]


def write(folder: Path, count: int) -> Path:
    """Files of reports with ids, among which are bad ones and text that is none."""
    folder.mkdir()
    records = reports(count, START + np.arange(count) * 7_200_000 // count)
    lines = [json.dumps({**record, "region": "north"}).encode() for record in [*records, *BAD]]
    junk = [f'{{"user_id": "{user_id(7)}", '.encode(), user_id(9).encode(), f'"{user_id(11)}"'.encode()]
    (folder / "in.jsonl").write_bytes(b"\n".join([*lines, *junk]) + b"\n")
    pq.write_table(pa.Table.from_pylist(records), folder / "in.parquet")
    (folder / "header.avro").write_bytes(b"Obj\x01\x02\x16avro.schema\x38" + user_id(1).encode() + bytes(17))
    return folder


#: ``ldpbeam``, whose runs on this machine hold few reports in memory.
PROGRAM = """
import sys
from ldpbeam.transforms import tally
tally.HELD_REPORTS = 2_000
from ldpbeam.command_line.main import main
sys.exit(main(sys.argv[1:]))
"""


class Run:
    """``ldpbeam estimate`` in a process and with a temporary folder of its own."""

    def __init__(self, folder: Path, inputs: Path, *options: object, files: int | None = None) -> None:
        folder.mkdir()
        self.temporary, self.output = folder / "tmp", folder / "out"
        self.temporary.mkdir()
        (folder / "study.yaml").write_text(STUDY)
        command = [sys.executable, "-c", PROGRAM, "estimate", "--study", folder / "study.yaml"]
        command += ["--input", inputs / "*", "--output", self.output, "--on-bad-file", "skip", *options]
        limit = None if files is None else (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (files, files)))
        self.process = subprocess.Popen(
            list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(self.temporary)}, preexec_fn=limit,
        )  # fmt: skip

    def end(self) -> tuple[int, bytes]:
        """The exit code, and what it said."""
        said, _ = self.process.communicate()
        return self.process.returncode, said


def test_the_search_finds_an_id_in_every_form() -> None:
    for number in range(6):
        text = user_id(number)
        raw = text.encode() if PREFIX in text else RAW + number.to_bytes(5, "big")
        for before in (b"", b"{", b'"id'):
            for form in (text.encode(), raw, raw.hex().encode(), raw.hex().upper().encode()):
                assert seen_in(before + form + b"tail")
            assert seen_in(base64.b64encode(before + raw + b"tail"))
    assert not seen_in(b"somebody else" * 10) and len(FORMS) > 20


@pytest.mark.parametrize("options", [(), ("--runner", "direct", "--max-bad-fraction", "1")])
def test_no_file_of_a_batch_run_ever_has_an_id(options: tuple[str, ...], tmp_path: Path) -> None:
    inputs = write(tmp_path / "in", 6_000)
    run = Run(tmp_path / "run", inputs, *options)
    with Watched(run.temporary, run.output) as watched:
        code, said = run.end()
    assert code == 3, said.decode()
    assert not seen_in(said), said.decode()
    assert watched.shown == set()
    # Without an engine, reports with an id of their own were compared on disk, where one could look.
    assert bool(options) or any(name.startswith(str(run.temporary)) for name in watched.files)
    counts = json.loads((run.output / "accounting.json").read_text())
    # 2,000 have no report id, and both files have all: these count twice, and each of 2,000 ids once.
    assert (counts["used"], counts["duplicates"]) == (4_000 + 2_000, 6_000)
    assert counts["dead_letters"] == len(BAD) + 3 + 1


def test_a_run_that_is_killed_or_fails_leaves_no_id(tmp_path: Path) -> None:
    inputs = write(tmp_path / "in", 60_000)
    run = Run(tmp_path / "killed", inputs)
    wait_until(lambda: any(path.is_file() for path in run.temporary.rglob("*")), lambda: "nothing is spilled")
    run.process.send_signal(signal.SIGKILL)
    code, said = run.end()
    assert code == -signal.SIGKILL
    assert any(run.temporary.iterdir())
    assert not seen_in(said) and shown_by(run.temporary, run.output) == set()
    # Its disk has no room for what is spilled.
    run = Run(tmp_path / "failed", inputs, files=100_000)
    with Watched(run.temporary, run.output) as watched:
        code, said = run.end()
    assert code == 2 and b"reports that are compared" in said, said.decode()
    assert not seen_in(said) and watched.shown == set()
