"""A subscription that an engine reads, which acknowledges what the engine has committed."""

from __future__ import annotations

from collections.abc import Sequence

from ldpbeam.transforms.sources.feeds import FeedBatch
from ldpbeam.transforms.sources.message_batches import Received, next_batch
from ldpbeam.transforms.sources.on_record import OnRecord
from ldpbeam.transforms.sources.pubsub import BATCH_BYTES, BATCH_MESSAGES, PubSubFeed, _chunks, _Pulled
from ldpbeam.transforms.state.decoding import Record


class _Acknowledged(_Pulled):
    """An open subscription whose receipts the engine gives back."""

    def __init__(self, feed: PubSubFeed) -> None:
        self._decoding = Record(feed.folder, dict(feed.suspects))
        super().__init__(feed, (), OnRecord(feed.folder))

    def take(self) -> FeedBatch | None:
        received: list[Received] = []
        size = 0
        with self._lock:
            while self._waiting and len(received) < BATCH_MESSAGES and size < BATCH_BYTES:
                received.append(self._waiting.popleft())
                size += len(received[-1].message.data)
        if not received:
            if self._problem is not None:
                raise OSError(f"{self.feed.subscription}: {self._problem}")
            return None
        batch, rest = next_batch(self.feed.name, self.feed.columns, received, self._decoding)
        with self._lock:
            self._waiting.extendleft(reversed(rest))
        return batch

    def acknowledge(self, receipts: Sequence[str]) -> None:
        for some in _chunks(receipts):
            self._acknowledge(some)
            with self._lock:
                for receipt in some:
                    self._held.pop(receipt, None)

    def close(self) -> None:
        self._closing.set()
        self._wake.set()
        self._puller.join(6.0)
        self._pulling.close()
        self._puller.join(1)
        waiting = [one.receipt for one in self._waiting]
        all(self._set_deadline(some, 0) for some in _chunks(waiting))
        self._waiting.clear()
