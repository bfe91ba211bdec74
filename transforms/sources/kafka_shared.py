"""A topic that the readers of an engine share; each acknowledges what the engine has committed."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ldpbeam.transforms.offsets import Checksum
from ldpbeam.transforms.sources.feeds import UNFOUND, FeedBatch, FeedState, Share
from ldpbeam.transforms.sources.kafka import BATCH_BYTES, BATCH_MESSAGES, KafkaFeed, _Consumed
from ldpbeam.transforms.sources.kafka_checksums import checksums_of
from ldpbeam.transforms.sources.kafka_messages import message_of
from ldpbeam.transforms.sources.message_batches import Received, next_batch
from ldpbeam.transforms.sources.on_record import OnRecord
from ldpbeam.transforms.state.decoding import Record
from ldpbeam.windows import FAR


class _Shared(_Consumed):
    """The partitions of one reader."""

    def __init__(self, feed: KafkaFeed, share: Share) -> None:
        self._share = share
        self._decoding = Record(feed.folder, dict(feed.suspects))
        self._cuts = dict(feed.cuts)
        # Those that an earlier reader found are known.
        known = {each: [checksum] for each, checksum in share.read.items()}
        super().__init__(feed, {**dict(feed.starts), **share.positions}, known, OnRecord(feed.folder))

    def _assign(self, starts: dict[int, int], checksums: dict[int, list[Checksum]]) -> None:
        ours = {
            each: start for each, start in starts.items() if each % self._share.readers == self._share.number
        }
        for number in ours.keys() - self._partitions.keys():
            self._clear_before(number, ours[number])
        super()._assign(ours, checksums)

    def _clear_before(self, partition: int, start: int) -> None:
        """Stop suspecting the messages of a partition before an offset: they are not read again."""
        named = f"{self.feed.topic.name}/{partition}/"
        ours = [message for message in self._decoding.suspects if message.startswith(named)]
        self._decoding.clear(message for message in ours if int(message.removeprefix(named)) < start)

    def take(self) -> FeedBatch | None:
        partition = self._next()
        if partition is None:
            return None
        messages = partition.next_messages(BATCH_MESSAGES, BATCH_BYTES)
        cuts = self._cuts.get(partition.number, ())
        after = bisect.bisect_right(cuts, messages[0].offset())
        cut = cuts[after] if after < len(cuts) else FAR
        messages = [message for message in messages if message.offset() < cut]
        received = [
            Received(str(message.offset()), message_of(message), published)
            for message, published in zip(messages, self._published(messages), strict=True)
        ]
        name = f"{self.feed.topic.name}/{partition.number}"
        batch, _ = next_batch(name, self.feed.columns, received, self._decoding)
        taken = messages[: len(batch.receipts)]
        batch = self._taken(partition, batch, taken)
        return batch._replace(
            receipts=[f"{partition.number}:{partition.after}"], checksums=checksums_of(taken)
        )

    @property
    def state(self) -> FeedState:
        state = super().state
        return replace(state, silences={n: silent for n, silent in state.silences.items() if n != UNFOUND})

    def acknowledge(self, receipts: Sequence[str]) -> None:
        self._said = _last(tuple(map(int, receipt.split(":"))) for receipt in receipts)
        self.commit()


def _last(places: Iterable[Any]) -> dict[int, int]:
    after: dict[int, int] = {}
    for partition, offset in places:
        after[partition] = max(offset, after.get(partition, 0))
    return after
