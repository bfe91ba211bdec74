"""Output folders elsewhere than on this machine: the same files, which commands read from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.object_store import BUCKET, ObjectStore
from support.studies import SMALL


@pytest.mark.parametrize("scheme", ["gs", "s3"])
def test_a_run_elsewhere_leaves_the_same_files_and_commands_read_them(
    scheme: str, tmp_path: Path, command: Any, write_lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = [
        {"user_id": str(n), "attribute": "x", "service": "ab"[n % 2], "payload": n / 8} for n in range(8)
    ]
    sent = write_lines(tmp_path / "sent.jsonl", [*reports, {"user_id": "none"}])
    here, there = tmp_path / "here", f"{scheme}://{BUCKET}/there"
    given = ["--study", f"{scheme}://{BUCKET}/study.yaml", "--input", f"{scheme}://{BUCKET}/in/*"]
    given += ["--max-bad-fraction", "1", "--output"]
    with ObjectStore(tmp_path / "store") as store:
        store.reach(monkeypatch.setenv)
        store.objects["study.yaml"] = SMALL.encode()
        store.objects["in/sent.jsonl"] = sent.read_bytes()
        assert command("estimate", *given, here).code == command("estimate", *given, there).code == 0
        files = {str(path.relative_to(here)): path.read_bytes() for path in here.rglob("*") if path.is_file()}
        assert files == {
            name.removeprefix("there/"): data
            for name, data in store.objects.items()
            if name.startswith("there/") and not name.endswith("/")
        }
        assert command("check", there, "mean > 0") == command("check", here, "mean > 0")
        assert command("dead-letters", there).code == command("dead-letters", here).code == 0
        assert command("estimate", *given, there, "--overwrite").code == 0
        assert not store.unknown
