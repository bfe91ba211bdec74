"""Folders that may not be read, also where the administrator of a machine runs the tests."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest


def close_folder(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no folder of this name be listed."""
    scandir = os.scandir

    def refuse(folder: str) -> Any:
        if Path(folder).name == name:
            raise PermissionError(errno.EACCES, "Permission denied", folder)
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", refuse)
