"""One run per output folder at a time; what may share a folder does."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ldpbeam.errors import UserError
from ldpbeam.pipelines.runs import locks
from ldpbeam.pipelines.runs.locks import locked


def named(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*")}


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "out")


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [(True, True, False), (True, False, False), (False, True, False), (False, False, True)],
)
def test_who_may_write_beside_whom(first: bool, second: bool, together: bool, folder: str) -> None:
    with locked(folder, alone=first):
        if together:
            with locked(folder, alone=second):
                pass
        else:
            with (
                pytest.raises(UserError, match="another run is writing there now"),
                locked(folder, alone=second),
            ):
                pass
    with locked(folder, alone=second):
        pass


def test_a_folder_that_nobody_holds_has_no_lock_left(folder: str, tmp_path: Path) -> None:
    with locked(folder, alone=False), locked(folder, alone=False):
        assert named(tmp_path / "out")
    assert named(tmp_path / "out") - {".lock"} == set()
    with locked(folder, alone=True):
        assert named(tmp_path / "out") == {".lock"}


@pytest.mark.parametrize("again", [False, True])
def test_a_folder_that_was_deleted_or_replaced_is_noticed_at_the_end(
    again: bool, folder: str, tmp_path: Path
) -> None:
    gone = pytest.raises(UserError, match="it was deleted or moved while the run was writing there")
    with gone, locked(folder, alone=True):
        (tmp_path / "out").rename(tmp_path / "moved")
        if again:
            (tmp_path / "out").mkdir()


def test_a_file_system_without_locks_is_written_to_with_a_word(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(locks.errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(locks.fcntl, "flock", refuse)
    with locked(folder, alone=True), locked(folder, alone=True, wait=True):
        assert named(tmp_path / "out") == set()
    said = "its file system has no locks; see that no other run writes there"
    assert capsys.readouterr().err == f"ldpbeam: warning: --output {folder}: {said}\n"


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    code = (
        "import sys, time; from ldpbeam.pipelines.runs.locks import locked\n"
        "with locked(sys.argv[1], alone=True): print('held', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(UserError), locked(str(folder), alone=False):
            pass
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert named(folder) == {".lock"}
        with locked(str(folder), alone=True):
            pass
    assert named(folder) == set()
