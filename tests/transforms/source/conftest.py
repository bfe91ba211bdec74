"""Readers of the source that tests drive by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.driven_source import NOW, Drive, Driven, set_clocks

from ldpbeam.transforms.sources import reader


@pytest.fixture(autouse=True)
def no_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test begins without readers of another one."""
    monkeypatch.setattr(reader, "_readers", {})
    monkeypatch.setattr(reader, "_feeds", {})
    monkeypatch.setattr(reader, "LOOKING_SECONDS", 0.0)


@pytest.fixture
def drive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Drive]:
    """Makes a reader, and lets the source's clock be that of the last one made."""

    def make(**given: Any) -> Driven:
        driven = Driven(tmp_path, **given)
        set_clocks(monkeypatch, lambda: driven.now)
        return driven

    set_clocks(monkeypatch, lambda: NOW)
    yield make
