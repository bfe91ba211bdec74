"""A record of the messages that are being decoded, written before decoding begins.

A message that crashes the process is not acknowledged, so the server delivers it again, and every restart
would crash too. A restart therefore looks for messages that are still on record. Those that were on record
with many others are decoded in groups of :data:`TOGETHER`, and the rest alone. A message becomes a dead
letter when two processes ended while they decoded it alone: one may have been killed. What was decoded is
off the record.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from ldpbeam.transforms.state.files import DECODING
from ldpbeam.transforms.storage import delete

#: The reason of the dead letter of a message that crashed the process alone.
DEFEATED = "defeated_decoder"
PROBLEM = "the process that decoded this message ended before it had finished"
#: A message is at fault if this many processes ended while they decoded it alone.
ENDS = 2
#: Messages that were on record with more than this many are decoded again in groups of at most this many.
TOGETHER = 100


def left_on_record(output: str) -> dict[str, int]:
    """The ids of messages whose decoding did not finish, with the least number decoded together with each.

    The number includes the message. It is 0 for one with which :data:`ENDS` processes ended alone.

    Args:
        output: the output folder of the runs.

    Raises:
        ValueError: if a record is damaged.
    """
    return _least(DECODING.of_all_runs(output))


def _least(records: Iterable[Sequence[str]]) -> dict[str, int]:
    sizes: dict[str, list[int]] = {}
    for ids in records:
        for message in ids:
            sizes.setdefault(message, []).append(len(ids))
    return {message: 0 if each.count(1) >= ENDS else min(each) for message, each in sizes.items()}


class Record:
    """The record of one reader of a run.

    Args:
        folder: the run's folder.
        earlier: what earlier runs left on record, as :func:`left_on_record` gives it.
    """

    def __init__(self, folder: str, earlier: Mapping[str, int]) -> None:
        self._folder = folder
        # A reader that is made again in the same run, after a crash, takes over the records left by the last.
        self._left = {path: set(ids) for path, ids in DECODING.each(folder).items()}
        self.suspects = dict(earlier)
        for message, least in _least(map(list, self._left.values())).items():
            self.suspects[message] = min(least, earlier.get(message, least))
        self._name = uuid.uuid4().hex

    def clear(self, messages: Iterable[str]) -> None:
        """Stop suspecting messages that were decoded, and delete the records that have no other message."""
        cleared = self.suspects.keys() & set(messages)
        for message in cleared:
            del self.suspects[message]
        for path in [path for path, ids in self._left.items() if cleared & ids]:
            self._left[path] -= cleared
            if not self._left[path]:
                del self._left[path]
                delete([path])

    @contextmanager
    def of(self, messages: Sequence[str]) -> Iterator[None]:
        """Keep message ids on record during the block; at its end they are off it, also after an error."""
        DECODING.write(self._folder, messages, self._name)
        try:
            yield
        finally:
            delete([DECODING.path(self._folder, self._name)])
        self.clear(messages)
