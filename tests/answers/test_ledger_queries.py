"""What DuckDB is asked of the ledger: within its memory, with its errors, and where it is not installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.ledger_model import TEXT

import ldpbeam as ldp
from ldpbeam.answers import ledger_queries
from ldpbeam.answers.ledger_queries import first_received
from ldpbeam.errors import UserError
from ldpbeam.schemas.outputs.ledger_format import RECEIVED_SCHEMA


def rows(seed: int, batches: int = 60) -> Iterator[pa.RecordBatch]:
    """20,000 reports in each batch, a tenth of them of the batch before."""
    rng, size = np.random.default_rng(seed), 20_000
    before = np.zeros(0, dtype=np.uint64)
    for _ in range(batches):
        users = np.concatenate([before[: size // 10], rng.integers(0, 2**64, size, dtype=np.uint64)])[:size]
        zeros = np.zeros(size, dtype=np.int64)
        columns = users, users, zeros, zeros.astype(np.uint16), users
        before = users[size // 10 :]
        yield pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=RECEIVED_SCHEMA)


def test_more_rows_than_fit_into_memory_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(ledger_queries, "MEMORY", "80MB")
    spilled, found = 0, []
    for batch in first_received([rows(1), rows(1), rows(2)], [rows(2)]):
        spilled += any(path.is_file() for path in tmp_path.rglob("*"))
        found.append(batch["payload"].to_numpy())
    ours, others = (np.unique(np.concatenate([b["payload"] for b in rows(seed)])) for seed in (1, 2))
    assert np.array_equal(np.sort(np.concatenate(found)), np.setdiff1d(ours, others))
    assert spilled
    # No progress, no warning.
    assert capfd.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())


def test_too_little_memory_is_a_sentence_without_values(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(ledger_queries, "MEMORY", "2MB")
    said = f"the ledger could not be added up, with temporary files in {tmp_path}: Out of Memory Error: .*"
    with pytest.raises(UserError, match=f"^{said}$"):
        list(first_received([rows(1)]))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [UserError("one.arrow: damaged"), KeyboardInterrupt()])
def test_an_error_of_who_reads_a_file_reaches_the_caller(error: BaseException) -> None:
    def fails() -> Iterator[pa.RecordBatch]:
        yield from rows(1, 2)
        raise error

    with pytest.raises(type(error)) as found:
        list(first_received([fails()]))
    assert found.value is error


STUDY = "study.yaml"
COMMANDS = {
    "estimate": f"estimate --study {STUDY} --input reports.jsonl --output out",
    "stream": f"stream --study {STUDY} --input reports.jsonl --output out --user-id-key-file key",
    "ledger of a folder": "",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_without_duckdb_a_command_says_so_before_it_writes(
    name: str, command: Any, run_estimate: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports, key = tmp_path / "reports.jsonl", tmp_path / "key"
    (tmp_path / STUDY).write_text(TEXT)
    reports.write_text("")
    key.write_bytes(b"k" * 32)
    key.chmod(0o600)
    monkeypatch.chdir(tmp_path)
    arguments = COMMANDS[name].split()
    if name == "ledger of a folder":
        arguments = ["ledger", str(run_estimate(tmp_path / "before", TEXT, [reports]).path)]
    there = sorted(tmp_path.rglob("*"))
    monkeypatch.setitem(sys.modules, "duckdb", None)
    ran = command(*arguments)
    assert (ran.code, ran.out) == (2, "")
    what = "the ledger over periods (ledger: in the study)"
    assert ran.err == f"ldpbeam: {what} needs DuckDB: pip install 'ldpbeam[ledger]'\n"
    assert sorted(tmp_path.rglob("*")) == there


def test_the_library_says_so_of_a_study_with_a_ledger_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    report = {
        "user_id": "u", "attribute": "x", "service": "web", "event_time": 1_795_132_800_000, "payload": 1,
    }  # fmt: skip
    with pytest.raises(ImportError, match=r"pip install 'ldpbeam\[ledger\]'"):
        ldp.estimate(ldp.Study.from_yaml(TEXT), [report])
    without = TEXT.replace("ledger: {period: 1d, cap: 3.5}\n", "").replace(", values_at_most: 2", "")
    assert ldp.estimate(ldp.Study.from_yaml(without), [report]).periods == ()
