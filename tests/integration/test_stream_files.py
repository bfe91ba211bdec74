"""Files as a stream: those that appear are read once, by one run, and equal the batch run over them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from stream_messages import MINUTE, WEEK_AGO, evenly, reports_of, rides
from stream_runs import Left, answers, statistics_of, streaming

pytestmark = pytest.mark.slow

STUDY = rides("size: 10m, allowed_lateness: 10m")
#: Files come in any order of event time.
#: It stops after more time than a busy machine takes from one step to the next.
OPTIONS = ("--max-disorder", "1h", "--stop-when-idle", "20s")
KINDS = ("avro", "parquet", "jsonl")


def test_files_are_read_as_they_appear_and_once(
    run_estimate: Any, write_reports: Any, command: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    # Of later files first, and the last one of the window of the first.
    places = (2, 0, 1, 2)
    sent = [
        reports_of(STUDY, f"file {n}", evenly(WEEK_AGO + place * 10 * MINUTE, 10 * MINUTE, 1_000), seed=n)
        for n, place in enumerate(places)
    ]

    written = [
        write_reports(tmp_path / f"made-{number}", part, KINDS[number % len(KINDS)])
        for number, part in enumerate(sent)
    ]

    def appear(number: int) -> None:
        """Whole files, as a reader needs them: written elsewhere, and moved."""
        for path in written[number]:
            path.rename(folder / f"{number}-{path.name}")

    (folder / ".3-half-of-a-file.avro").write_bytes(b"Obj\x01")
    appear(0)
    with streaming(tmp_path, STUDY, "--input", folder / "*", *OPTIONS) as stream:
        stream.wait_until_said("^run .* reading ")
        for number in (1, 2):
            stream.wait_until(lambda n=number: read_whole(stream.left, f"{n - 1}-"))
            appear(number)
        assert stream.wait() == 0, stream.said
        one = stream.left
    appear(3)
    with streaming(tmp_path, STUDY, "--input", folder / "*", *OPTIONS) as again:
        assert again.wait() == 0, again.said
        two = again.left
    assert (one.accounting["in"], one.accounting["used"]) == (6_000, 6_000)
    assert (two.accounting["in"], two.accounting["used"]) == (2_000, 2_000)
    # The second run has a part of a window of the first.
    for name, left, complete in (("0 1 2", one, True), ("3", two, False)):
        paths = [path for n in name.split() for path in folder.glob(f"{n}-*")]
        batch = run_estimate(tmp_path / f"batch of {name}", STUDY, paths)
        assert left.statistics == statistics_of(batch.snapshots)
        assert left.estimates == answers(batch.estimates)
        assert {(s.pane_timing, s.complete) for s in left.snapshots.values()} == {("on_time", complete)}
    study, statistics, rolled = tmp_path / "study.yaml", one.output / "statistics/*.avro", tmp_path / "rolled"
    ran = command("rollup", "--study", study, "--statistics", statistics, "--output", rolled)
    assert ran.code == 0, ran.err
    found = [json.loads(line) for line in (rolled / "estimates.jsonl").read_text().splitlines()]
    assert {(own["reports"], own["users"]) for own in found} == {(8_000, 4_000)}


def read_whole(left: Left, start: str) -> bool:
    """Whether a run has committed that it read the files whose names start so, of both services."""
    position = left.manifest.get("position", {"read": {}, "part": None})
    read = [path for path in position["read"] if Path(path).name.startswith(start)]
    return len(read) == 2 and position["part"] is None
