"""The tests' own Pub/Sub server, which fails on demand."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ldpbeam.transforms.sources import pubsub

if TYPE_CHECKING:
    from support.pubsub_feed import Running


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Running]:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "integration")
    import pubsub_server
    from support.pubsub_feed import Running

    monkeypatch.setattr(pubsub, "PULL_SECONDS", 2.0)
    monkeypatch.setattr(pubsub_server, "EMPTY_PULL", 0.1)
    with pubsub_server.PubSubServer() as server:
        monkeypatch.setenv("PUBSUB_EMULATOR_HOST", server.address)
        with contextlib.closing(Running(server, tmp_path / "run")) as running:
            yield running
