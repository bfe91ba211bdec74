"""A record of the messages that are being decoded and checked, written before decoding begins.

A message that crashes the process is not acknowledged, so the server delivers it again, and every restart
would crash too. A restart therefore looks for messages that are still on record. Those that were on record
with many others are batches of :data:`TOGETHER`, and of the rest each is one alone. A message becomes a dead
letter when two processes ended while it was alone: one may have been killed. A batch is off the record when
the stages that run in the process of its reader have passed it on.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence

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
        self._held: Sequence[str] = ()

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

    def hold(self, messages: Sequence[str]) -> None:
        """Keep message ids on record, and no others, until :meth:`passed`."""
        self._held = messages
        DECODING.write(self._folder, messages, self._name)

    def passed(self, *, suspected: bool = False) -> None:
        """Take all off the record; they are suspects no more, unless it is said that they are."""
        held, self._held = self._held, ()
        if held:
            delete([DECODING.path(self._folder, self._name)])
            self.clear(() if suspected else held)
