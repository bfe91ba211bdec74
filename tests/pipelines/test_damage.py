"""Damage that is found while files are read: the run stops, or says that its loss is not known.

Which damage is found in which kind of file: test_read_files. That a run which stops leaves the outputs of
scheduled runs before it: test_scheduled.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import fixed_avro
from support.encoded import avro_file
from support.studies import SMALL

from ldpbeam.errors import UserError
from ldpbeam.pipelines.commands.estimate import stop_for_damage
from ldpbeam.pipelines.graphs.batch import BatchJob
from ldpbeam.schemas.encodings import avro
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.sources import files
from ldpbeam.transforms.sources.read import file_input

FILES, REPORTS, BLOCK = 7, 2_000, 10


@pytest.fixture
def seven(tmp_path: Path) -> list[Path]:
    """Seven Avro files of many small blocks, so that one lost block is few reports."""
    schema = fixed_avro.fixed_report_schema({"user_id": 16})
    folder = tmp_path / "in"
    folder.mkdir()
    paths = []
    for file in range(FILES):
        rows = np.zeros(REPORTS, fixed_avro.fixed_dtype(schema))
        rows["user_id"] = np.frombuffer(np.random.default_rng(file).bytes(16 * REPORTS), "V16")
        rows["payload"] = 0.5
        paths.append(folder / f"{file}.avro")
        with paths[-1].open("wb") as stream:
            metadata = {"ldpbeam.attribute": "x", "ldpbeam.service": "a"}
            fixed_avro.write_fixed(stream, rows, schema, metadata, bytes([file] * 15 + [255]), BLOCK)
    return paths


def test_a_file_that_many_workers_read_is_one_damaged_file(
    small_text: str, tmp_path: Path, run_estimate: Any, seven: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "RANGE_BYTES", 10_000)
    data = bytearray(seven[0].read_bytes())
    markers = [at for at in range(len(data)) if data.startswith(data[-16:], at)]
    for block in (20, 90, 160):
        data[markers[block] + 3] ^= 16
    seven[0].write_bytes(data)
    workers = ("--runner", "direct")
    stopped = run_estimate(tmp_path, small_text, [*seven], *workers)
    assert stopped.code == 2
    (sentence,) = [line for line in stopped.err.splitlines() if str(seven[0]) in line]
    assert f"byte {markers[19] + 16:,}: not followed by the file's sync marker" in sentence
    assert "--on-bad-file skip" in stopped.err
    assert stopped.accounting["damaged_files"] == 1
    left = {path.name for path in stopped.path.rglob("*") if path.is_file()}
    assert not any(name.startswith(("estimates", "small-", "ledger")) for name in left)
    skipped = run_estimate(tmp_path / "skip", small_text, [*seven], *workers, "--on-bad-file", "skip")
    assert skipped.code == 3
    for printed in (skipped.out, skipped.err):
        assert "1 file is damaged: how many reports it lost is not known" in printed
    counts = skipped.accounting
    assert (counts["damaged_files"], counts["dead_letters"]) == (1, 30)
    assert counts["used"] == FILES * REPORTS - 30
    assert [estimate["complete"] for estimate in skipped.estimates] == [False, False]
    assert [snapshot.complete for snapshot in skipped.snapshots] == [False]


def test_the_first_ten_damaged_files_are_named_with_their_first_damage(tmp_path: Path) -> None:
    letters = [
        {"file": f"in/{file:02}.avro", "position": position, "row": 0, "reason": reason, "reports": 1,
         "detail": f"damage at {position}", "sha256": "0" * 64, "record": None}
        for file in range(13)
        for position, reason in ((70, "corrupt_block"), (4_000, "corrupt_block"), (3, "no_user_id"))
    ]  # fmt: skip
    (tmp_path / "dead_letters").mkdir()
    (tmp_path / "dead_letters" / "part.avro").write_bytes(avro_file(avro.schema("dead_letter"), letters))
    job = BatchJob(parse_study(SMALL), str(tmp_path), "run", file_input(), Columns())
    with pytest.raises(UserError) as caught:
        stop_for_damage(job, 13)
    *named, more, advice = str(caught.value).splitlines()
    assert named == [f"in/{file:02}.avro, byte 70: damage at 70" for file in range(10)]
    assert more == "... and 3 more"
    assert advice.startswith("Damaged files: how many reports they lost is not known")
