"""What the tests of Flink share: a cache with nothing in it, and processes that end with the test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ldpbeam.runners.flink import parts


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with nothing in it, and an installed worker."""
    monkeypatch.setenv(parts.CACHE, str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    worker = tmp_path / "bin" / "ldpbeam-worker"
    worker.parent.mkdir()
    worker.touch()
    return tmp_path / "cache"


@pytest.fixture
def spawn(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts Python with words on its command line, and a program, by default one that lasts."""
    children = []

    def start(*words: str, program: str = "import time; time.sleep(120)") -> subprocess.Popen[bytes]:
        command = [str(Path(sys.prefix) / "bin" / "python"), "-c", program, *words]
        children.append(subprocess.Popen(command, stdout=subprocess.PIPE))
        return children[-1]

    yield start
    for child in children:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()
