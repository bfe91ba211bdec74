"""Output folders of every kind of run, for the tests of what reads them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.output_folders import every_folder


@pytest.fixture(scope="session")
def folders(
    tmp_path_factory: pytest.TempPathFactory,
    command: Callable[..., Any],
    run_estimate: Callable[..., Any],
    write_lines: Callable[..., Path],
) -> dict[str, Path]:
    """A folder of each kind of run."""
    return every_folder(tmp_path_factory.mktemp("runs"), command, run_estimate, write_lines)


@pytest.fixture
def copied(folders: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a folder, which a test may spoil."""
    return lambda kind: Path(shutil.copytree(folders[kind], tmp_path / kind))
