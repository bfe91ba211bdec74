"""A process that reads a feed is killed at any moment; the next one takes each message once."""

from __future__ import annotations

import contextlib
import json
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stream_messages import WEEK_AGO, evenly, one_by_one, reports_of, rides
from support.waiting import wait_until

from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.sources.feeds import Feed
from ldpbeam.transforms.sources.folder import FolderFeed

pytestmark = pytest.mark.slow

STUDY = rides("size: 10m")
PROGRAM = Path(__file__).with_name("committing.py")
KILLS = 4


def messages(count: int, seed: int) -> list[Any]:
    return one_by_one(reports_of(STUDY, f"s{seed}", evenly(WEEK_AGO, 1_000, count), seed)[:1])


class Manifest:
    """The file in which processes write down what they took."""

    def __init__(self, folder: Path, feed: Feed) -> None:
        self.feed, self.path = folder / "feed.pickle", folder / "manifest.json"
        self.feed.write_bytes(pickle.dumps(feed))

    @property
    def users(self) -> list[str]:
        return list(self.content["users"])

    @property
    def content(self) -> dict[str, Any]:
        return dict(json.loads(self.path.read_text())) if self.path.exists() else {"users": []}

    @contextlib.contextmanager
    def process(self) -> Iterator[None]:
        """A process that reads meanwhile, and is killed."""
        with subprocess.Popen([sys.executable, PROGRAM, self.feed, self.path]) as process:
            try:
                yield
            finally:
                process.kill()


def each_once(manifest: Manifest, users: int) -> None:
    """Kill processes while they read, and see that the manifest has every user once."""
    for kill in range(KILLS):
        # Some messages are taken and not committed, some are committed and not acknowledged.
        with manifest.process():
            wait_until(lambda kill=kill: len(manifest.users) > users * kill // (KILLS + 1))
    with manifest.process():
        wait_until(lambda: len(set(manifest.users)) == users, lambda: len(set(manifest.users)))
    assert Counter(Counter(manifest.users).values()) == {1: users}


def test_of_files_each_part_is_taken_once(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for file in range(50):
        lines = [message.data for message in messages(200, file)]
        (tmp_path / "in" / f"{file}.jsonl").write_bytes(b"\n".join([*lines, b""]))
    each_once(Manifest(tmp_path, FolderFeed((str(tmp_path / "in" / "*"),), Columns(), str(tmp_path))), 10_000)
