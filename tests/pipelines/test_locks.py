"""One run per output folder at a time; what may share a folder does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apache_beam.io import localfilesystem

from ldpbeam.pipelines.errors import UserError
from ldpbeam.pipelines.runs import locks
from ldpbeam.pipelines.runs.locks import locked


def named(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*")}


@pytest.fixture(params=["local", "without locks", "store"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A folder on a local file system, on one that has no locks, and in an object store."""
    if request.param == "without locks":

        def refuse(*_: object) -> None:
            raise OSError(locks.errno.EOPNOTSUPP, "Operation not supported")

        monkeypatch.setattr(locks.fcntl, "flock", refuse)
    if request.param == "store":
        yield f"shelf://{tmp_path}/out"
    else:
        yield str(tmp_path / "out")


class _Shelf(localfilesystem.LocalFileSystem):
    """Local files under a scheme of their own, as an object store has."""

    @classmethod
    def scheme(cls) -> str:
        return "shelf"

    def _inner(self, path: str) -> str:
        return path.removeprefix("shelf://")

    def join(self, basepath: str, *paths: str) -> str:
        return "/".join([basepath.rstrip("/"), *paths])

    def split(self, path: str) -> tuple[str, str]:
        head, _, tail = path.rpartition("/")
        return head, tail

    def mkdirs(self, path: str) -> None:
        super().mkdirs(self._inner(path))

    def exists(self, path: str) -> bool:
        return bool(super().exists(self._inner(path)))

    def metadata(self, path: str) -> Any:
        entry = super().metadata(self._inner(path))
        entry.path = path
        return entry

    def create(self, path: str, *arguments: Any, **options: Any) -> Any:
        return super().create(self._inner(path), *arguments, **options)

    def open(self, path: str, *arguments: Any, **options: Any) -> Any:
        return super().open(self._inner(path), *arguments, **options)

    def rename(self, sources: list[str], targets: list[str]) -> None:
        super().rename(list(map(self._inner, sources)), list(map(self._inner, targets)))

    def delete(self, paths: list[str]) -> None:
        for path in paths:
            Path(self._inner(path)).unlink()

    def match(self, patterns: list[str], limits: Any = None) -> Any:
        found = super().match(list(map(self._inner, patterns)), limits)
        for result in found:
            for entry in result.metadata_list:
                entry.path = f"shelf://{entry.path}"
        return found


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
        assert all(map(locks.is_lock, named(tmp_path / "out")))


@pytest.mark.parametrize("again", [False, True])
def test_a_folder_that_was_deleted_or_replaced_is_noticed_at_the_end(
    again: bool, folder: str, tmp_path: Path
) -> None:
    gone = pytest.raises(UserError, match="it was deleted or moved while the run was writing there")
    with gone, locked(folder, alone=True):
        (tmp_path / "out").rename(tmp_path / "moved")
        if again:
            (tmp_path / "out").mkdir()


def test_the_marker_of_a_run_that_was_killed_is_forgotten(tmp_path: Path) -> None:
    folder = f"shelf://{tmp_path}/out"
    with locked(folder, alone=True):
        (marker,) = (tmp_path / "out").iterdir()
        os.utime(marker, (0, 0))
        with locked(folder, alone=True):
            pass
        os.utime(marker)
        with (
            pytest.raises(UserError, match="killed is forgotten after 5 minutes"),
            locked(folder, alone=True),
        ):
            pass


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
