"""Damage that is found while files are read: the run stops, or says that its loss is not known."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldpbeam.pipelines.estimates import stages
from ldpbeam.schemas.encodings import avro
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.sources import files

FILES, REPORTS, BLOCK = 7, 2_000, 10


def lines(count: int, user: str = "u") -> bytes:
    rows = [
        {"user_id": f"{user}{i}", "attribute": "x", "service": "a", "payload": (i % 101) / 100}
        for i in range(count)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@pytest.fixture
def seven(tmp_path: Path) -> list[Path]:
    """Seven Avro files of many small blocks, so that one lost block is few reports."""
    schema = avro.fixed_report_schema({"user_id": 16})
    folder = tmp_path / "in"
    folder.mkdir()
    paths = []
    for file in range(FILES):
        rows = np.zeros(REPORTS, avro.fixed_dtype(schema))
        rows["user_id"] = np.frombuffer(np.random.default_rng(file).bytes(16 * REPORTS), "V16")
        rows["payload"] = 0.5
        paths.append(folder / f"{file}.avro")
        with paths[-1].open("wb") as stream:
            metadata = {"ldpbeam.attribute": "x", "ldpbeam.service": "a"}
            avro.write_fixed(stream, rows, schema, metadata, bytes([file] * 15 + [255]), BLOCK)
    return paths


@pytest.fixture
def after_match(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Something happens to the input between the moment the files are found and the moment they are read."""

    def when_assembled(change: Callable[[], Any]) -> None:
        assemble = stages.assemble

        def changed(*arguments: Any) -> Any:
            change()
            return assemble(*arguments)

        monkeypatch.setattr(stages, "assemble", changed)

    return when_assembled


def nothing_is_left(found: Any) -> bool:
    """No file that could be taken for the outcome of a whole run."""
    left = {path.name for path in found.path.rglob("*") if path.is_file()}
    return not any(name.startswith(("estimates", ".estimates", "small-", "ledger")) for name in left)


def cut(path: Path, size: int) -> None:
    with path.open("r+b") as stream:
        stream.truncate(size)


def sync_places(data: bytes) -> list[int]:
    return [at for at in range(len(data)) if data.startswith(data[-16:], at)]


def check(found: Any, damaged: Path, problem: str) -> None:
    """A run that stopped, and said of which file and why."""
    assert found.code == 2, found.out + found.err
    (sentence,) = [line for line in found.err.splitlines() if str(damaged) in line]
    assert problem in sentence
    assert "--on-bad-file skip" in found.err
    assert nothing_is_left(found)
    assert found.accounting["damaged_files"] == 1


def check_skipped(found: Any, files_damaged: int = 1) -> None:
    """A run that estimated from the rest, and said that it does not know what is missing."""
    assert found.code == 3
    assert found.accounting["damaged_files"] == files_damaged
    what = "1 file is damaged" if files_damaged == 1 else f"{files_damaged} files are damaged"
    assert f"{what}: how many reports " in found.err
    assert "lost is not known" in found.err
    assert f"{what}: how many reports " in found.out
    assert [estimate["complete"] for estimate in found.estimates] == [False] * len(found.estimates)
    assert [snapshot.complete for snapshot in found.snapshots] == [False] * len(found.snapshots)


def test_gzip_json_lines_cut_in_half_end_the_run(small_text: str, tmp_path: Path, run_estimate: Any) -> None:
    path = tmp_path / "r.jsonl.gz"
    packed = gzip.compress(lines(20_000))
    path.write_bytes(packed[: len(packed) // 2])
    check(run_estimate(tmp_path, small_text, [path]), path, "it ends too early")


def test_of_gzip_json_lines_with_a_flipped_bit_nothing_counts(
    small_text: str, tmp_path: Path, run_estimate: Any
) -> None:
    path, good = tmp_path / "r.jsonl.gz", tmp_path / "good.jsonl"
    packed = bytearray(gzip.compress(lines(20_000)))
    packed[len(packed) * 3 // 4] ^= 4
    path.write_bytes(packed)
    good.write_bytes(lines(100, "v"))
    found = run_estimate(tmp_path, small_text, [path, good], "--on-bad-file", "skip")
    check_skipped(found)
    assert (found.accounting["used"], found.accounting["dead_letters"]) == (100, 1)
    assert len(found.estimates) == 2


@pytest.mark.parametrize("size", [0, 1, 700_001, 1_300_000])
def test_json_lines_that_shrink_before_they_are_read_end_the_run(
    size: int, small_text: str, tmp_path: Path, run_estimate: Any, after_match: Any
) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(lines(20_000))
    after_match(lambda: cut(path, size))
    whole = path.stat().st_size
    check(run_estimate(tmp_path, small_text, [path]), path, f"it has {size:,} bytes, and had {whole:,}")


def test_a_file_that_lost_whole_lines_while_it_was_read_is_damaged(
    small_text: str, tmp_path: Path, run_estimate: Any, after_match: Any
) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(lines(20_000))
    whole = path.stat().st_size
    after_match(lambda: path.write_bytes(lines(12_000)))
    found = run_estimate(tmp_path / "a", small_text, [path], "--on-bad-file", "skip")
    check_skipped(found)
    assert (found.accounting["used"], found.accounting["dead_letters"]) == (12_000, 1)
    (letter,) = found.dead_letters
    assert letter["detail"] == f"it has {len(lines(12_000)):,} bytes, and had {whole:,} when it was found"


def test_json_lines_that_end_inside_a_line_are_damaged(
    small_text: str, tmp_path: Path, run_estimate: Any
) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(lines(20_000)[: 7 * 90_000])
    found = run_estimate(tmp_path, small_text, [path])
    check(found, path, "the file ends inside a line: it was cut short, or is still being written")


def test_a_last_line_without_a_line_end_counts(small_text: str, tmp_path: Path, run_estimate: Any) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(lines(100)[:-1])
    found = run_estimate(tmp_path, small_text, [path])
    assert (found.code, found.accounting["used"]) == (0, 100)


def test_what_is_appended_after_the_match_is_left_to_the_next_run(
    small_text: str, tmp_path: Path, run_estimate: Any, after_match: Any, seven: list[Path]
) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(lines(100))
    more = seven[0].read_bytes()
    block = more[sync_places(more)[-2] + 16 :]

    def grow() -> None:
        with path.open("ab") as stream:
            stream.write(lines(100, "v"))
        with seven[0].open("ab") as stream:
            stream.write(block)

    after_match(grow)
    found = run_estimate(tmp_path, small_text, [path, seven[0]])
    assert (found.code, found.accounting["in"], found.accounting["used"]) == (0, 100 + REPORTS, 100 + REPORTS)


def test_one_flipped_bit_of_a_sync_marker_in_a_header_ends_the_run(
    small_text: str, tmp_path: Path, run_estimate: Any, seven: list[Path]
) -> None:
    data = bytearray(seven[3].read_bytes())
    data[sync_places(bytes(data))[0] + 5] ^= 1
    seven[3].write_bytes(data)
    found = run_estimate(tmp_path, small_text, [*seven])
    assert (found.code, f"{seven[3]}: the sync marker in its header is damaged" in found.err) == (2, True)
    assert not found.path.exists()
    found = run_estimate(tmp_path / "skip", small_text, [*seven], "--on-bad-file", "skip")
    check_skipped(found)
    assert found.accounting["used"] == (FILES - 1) * REPORTS


@pytest.mark.parametrize(
    ("when", "at_a_block"),
    # Nothing in a file tells that blocks are missing at its end: only its size when it was found does.
    [("before", False), ("after", False), ("after", True)],
)
def test_one_of_seven_avro_files_cut_in_half_ends_the_run(
    when: str, at_a_block: bool, small_text: str, tmp_path: Path, run_estimate: Any, seven: list[Path],
    after_match: Any,
) -> None:  # fmt: skip
    data = seven[5].read_bytes()
    half = sync_places(data)[REPORTS // BLOCK // 2] + 16 + (0 if at_a_block else 7)
    if when == "before":
        cut(seven[5], half)
    else:
        after_match(lambda: cut(seven[5], half))
    shorter = f"it has {half:,} bytes, and had {len(data):,} when it was found"
    check(
        run_estimate(tmp_path, small_text, [*seven]),
        seven[5],
        "the file ends inside a block" if when == "before" else shorter,
    )


@pytest.mark.parametrize("kind", ["avro", "jsonl", "jsonl.gz", "parquet"])
def test_a_file_that_is_deleted_after_it_was_found_ends_the_run(
    kind: str, small_text: str, tmp_path: Path, run_estimate: Any, seven: list[Path], after_match: Any,
    simulate: Any, write_reports: Any,
) -> None:  # fmt: skip
    if kind.startswith("jsonl"):
        gone = tmp_path / "gone"
        gone.write_bytes(gzip.compress(lines(100)) if kind == "jsonl.gz" else lines(100))
    else:
        sent = simulate(parse_study(small_text), "x", np.full(100, 0.5), services=["a"])
        (gone,) = write_reports(tmp_path / "gone", sent, kind)
    after_match(gone.unlink)
    check(run_estimate(tmp_path, small_text, [*seven, gone]), gone, "No such file or directory")


@pytest.mark.parametrize("kind", ["jsonl.gz", "parquet"])
def test_a_file_that_is_written_anew_after_it_was_found_is_damaged(
    kind: str, small_text: str, tmp_path: Path, run_estimate: Any, after_match: Any, simulate: Any,
    write_reports: Any,
) -> None:  # fmt: skip
    study = parse_study(small_text)
    if kind == "parquet":
        one, two = (
            write_reports(tmp_path / str(n), simulate(study, "x", np.full(n, 0.5), services=["a"]), kind)[0]
            for n in (100, 300)
        )
    else:
        one, two = tmp_path / "1", tmp_path / "2"
        one.write_bytes(gzip.compress(lines(100)))
        two.write_bytes(gzip.compress(lines(300)))
    after_match(lambda: two.replace(one))
    check(run_estimate(tmp_path, small_text, [one]), one, "when it was found")


def test_a_file_that_many_workers_read_is_one_damaged_file(
    small_text: str, tmp_path: Path, run_estimate: Any, seven: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "RANGE_BYTES", 10_000)
    data = bytearray(seven[0].read_bytes())
    places = sync_places(bytes(data))
    for block in (20, 90, 160):
        data[places[block] + 3] ^= 16
    seven[0].write_bytes(data)
    found = run_estimate(tmp_path, small_text, [*seven])
    check(found, seven[0], f"byte {places[19] + 16:,}: not followed by the file's sync marker")
    found = run_estimate(tmp_path / "skip", small_text, [*seven], "--on-bad-file", "skip")
    check_skipped(found)
    assert (found.accounting["dead_letters"], found.accounting["used"]) == (30, FILES * REPORTS - 30)


def test_the_first_ten_damaged_files_are_named(small_text: str, tmp_path: Path, run_estimate: Any) -> None:
    paths = [tmp_path / "in" / f"{place:02}.jsonl" for place in range(13)]
    paths[0].parent.mkdir()
    for path in paths:
        path.write_bytes(lines(100, path.stem)[:-30])
    found = run_estimate(tmp_path, small_text, paths)
    assert [str(path) in found.err for path in paths] == [True] * 10 + [False] * 3
    assert "... and 3 more" in found.err
    check_skipped(run_estimate(tmp_path / "skip", small_text, paths, "--on-bad-file", "skip"), 13)


@pytest.mark.parametrize("on_bad_file", ["stop", "skip"])
def test_estimates_of_workers_do_not_survive_damage(
    on_bad_file: str, small_text: str, tmp_path: Path, run_estimate: Any, seven: list[Path]
) -> None:
    cut(seven[0], seven[0].stat().st_size - 9)
    options = ("--estimate-on", "worker", "--on-bad-file", on_bad_file)
    found = run_estimate(tmp_path, small_text, [*seven], *options)
    if on_bad_file == "stop":
        check(found, seven[0], "the file ends inside a block")
    else:
        check_skipped(found)
        assert len(found.estimates) == 2


def test_a_scheduled_run_that_stops_for_damage_leaves_what_was_there(
    small_text: str, tmp_path: Path, run_estimate: Any
) -> None:
    text = small_text + "windows: {size: 1h}\n"
    span = ("--from", "1970-01-01T00:00:00Z", "--to", "1970-01-01T01:00:00Z")
    path = tmp_path / "r.jsonl"
    data = lines(100).replace(b'"payload"', b'"event_time": 5, "payload"')
    path.write_bytes(data)
    first = run_estimate(tmp_path, text, [path], *span)
    assert first.code == 0
    before = {file: file.read_bytes() for file in first.path.rglob("*") if file.is_file()}
    path.write_bytes(data[:-30])
    stopped = run_estimate(tmp_path, text, [path], *span)
    assert (stopped.code, str(path) in stopped.err) == (2, True)
    assert {file: file.read_bytes() for file in first.path.rglob("*") if file.is_file()} == before
    skipped = run_estimate(tmp_path, text, [path], *span, "--on-bad-file", "skip")
    check_skipped(skipped)
    assert (skipped.accounting["used"], skipped.estimates[0]["reports"]) == (99, 99)


def test_an_input_without_a_report_is_said(small_text: str, tmp_path: Path, run_estimate: Any) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(b"\n")
    found = run_estimate(tmp_path, small_text, [path])
    assert (found.code, found.err) == (
        0,
        "ldpbeam: warning: the input has no report, so there is no estimate\n",
    )
