"""Beam's own Pub/Sub transform: messages of a bundle are decoded together, none is lost between bundles."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from apache_beam.io.gcp.pubsub import PubsubMessage
from apache_beam.utils.timestamp import Timestamp

from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.sources import native_pubsub as stage


@pytest.fixture
def gathered(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], str]]:
    """The ids of what was decoded together, and one of their content types."""
    found: list[tuple[list[str], str]] = []

    def batch_of(feed: str, columns: Any, messages: list[Any]) -> Any:
        found.append(([message.id for message in messages], messages[0].content_type))
        return SimpleNamespace(batches=[], letters=[])

    monkeypatch.setattr(stage, "batch_of", batch_of)
    monkeypatch.setattr(stage, "BATCH_MESSAGES", 3)
    monkeypatch.setattr(stage, "BATCH_BYTES", 100)
    return found


def message(name: str, size: int = 1) -> PubsubMessage:
    return PubsubMessage(b"x" * size, {"content-type": "application/json"}, name)


def test_messages_of_a_bundle_are_decoded_together(gathered: list[tuple[list[str], str]]) -> None:
    decode = stage._Decode("a subscription", Columns())
    decode.start_bundle()
    times = [5, 3, 4, 9]
    given = [
        list(decode.process(message(name), Timestamp(time))) for name, time in zip("abcd", times, strict=True)
    ]
    # Three are as many as go together; they have the time of the earliest.
    assert [len(one) for one in given] == [0, 0, 1, 0]
    assert given[2][0].timestamp == Timestamp(3)
    (rest,) = decode.finish_bundle()
    assert rest.timestamp == Timestamp(9)
    assert gathered == [(["a", "b", "c"], "application/json"), (["d"], "application/json")]
    decode.start_bundle()
    assert not list(decode.finish_bundle())


def test_large_messages_do_not_wait_for_others(gathered: list[tuple[list[str], str]]) -> None:
    decode = stage._Decode("a subscription", Columns())
    decode.start_bundle()
    assert list(decode.process(message("large", 100), Timestamp(1)))
    assert not list(decode.finish_bundle())
    assert [ids for ids, _ in gathered] == [["large"]]
