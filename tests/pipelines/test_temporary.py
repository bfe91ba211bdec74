"""The temporary folder of a run: private, deleted at its end, and by the next run if the run was killed."""

from __future__ import annotations

import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ldpbeam.pipelines.runs.temporary import temporary_folder

HOLDER = """
import sys
from ldpbeam.pipelines.runs.temporary import temporary_folder

with temporary_folder() as folder:
    (folder / "spilled").write_bytes(b"user ids")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which temporary files are made, here and in processes."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


@pytest.fixture
def holder(below: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds a folder."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        assert Path(process.stdout.readline().strip()).parent == below
        yield process
        process.kill()


def test_it_is_private_and_is_deleted_after_an_error_too(below: Path) -> None:
    with pytest.raises(ValueError, match="the run failed"), temporary_folder() as folder:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / "spilled").write_bytes(b"user ids")
        raise ValueError("the run failed")
    assert not list(below.iterdir())


def test_a_worker_that_still_runs_finds_no_folder_to_write_to(
    below: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted = []

    def delete(gone: Path, **how: bool) -> None:
        deleted.append(gone)
        with pytest.raises(FileNotFoundError):
            (folder / "spilled late").write_bytes(b"user ids")
        rmtree(gone, **how)

    rmtree = shutil.rmtree
    monkeypatch.setattr("shutil.rmtree", delete)
    with temporary_folder() as folder:
        (folder / "spilled").write_bytes(b"user ids")
    assert len(deleted) == 1
    assert not list(below.iterdir())


def test_what_a_killed_run_left_is_deleted_by_the_next_one_and_what_others_hold_is_not(
    below: Path, holder: subprocess.Popen[str]
) -> None:
    (held,) = below.iterdir()
    with temporary_folder() as folder:
        assert set(below.iterdir()) == {held, folder}
    assert (held / "spilled").exists()
    holder.kill()
    holder.wait()
    with temporary_folder() as folder:
        assert set(below.iterdir()) == {folder}
    assert not list(below.iterdir())


def test_a_link_a_file_and_a_folder_of_another_name_are_left_alone(below: Path) -> None:
    (below / "other").mkdir()
    (below / "ldpbeam-run-link").symlink_to(below / "other")
    (below / "ldpbeam-run-file").touch()
    with temporary_folder():
        pass
    assert {path.name for path in below.iterdir()} == {"other", "ldpbeam-run-link", "ldpbeam-run-file"}


def test_sigterm_deletes_it(below: Path, holder: subprocess.Popen[str]) -> None:
    holder.send_signal(signal.SIGTERM)
    assert holder.wait() != 0
    assert not list(below.iterdir())


def test_of_runs_that_start_together_none_deletes_the_folder_of_another(below: Path) -> None:
    together, lost = threading.Barrier(8), []

    def run() -> None:
        for _ in range(20):
            together.wait()
            with temporary_folder() as folder:
                together.wait()
                if not folder.is_dir():
                    lost.append(folder)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not lost
    assert not list(below.iterdir())
