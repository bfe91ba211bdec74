"""The record of the messages that were taken last, to find one that crashes the process.

A message that crashes the process is not acknowledged, so the server delivers it again, and each process
would crash. So what is taken is on record in the run's folder before it is decoded, until the next take: the
record covers the decoding, and what the run does with the reports before it takes more. The file guards
against a crash of the process, not of the machine, which no message causes, so it is not synced to the disk.

Most processes that end were killed. So the messages on record are first decoded together again; if that
process ends too, in small groups; and those of a group that ends another one, each alone. A message that
ended two processes alone is a dead letter: somebody may have killed one of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from ldpbeam.transforms.storage import delete, exists, join, make_folder, read_json, replacing

#: The file in the run's folder.
NAME = "decoding.json"
#: At most this many messages that were being decoded when two processes crashed are decoded together.
FEW = 100
#: After this many crashes messages are decoded alone, and after this many alone, never again.
ALONE, AT_FAULT = 3, 5
#: The reason of the dead letter of a message that is at fault.
DEFEATED = "defeated_decoder"
PROBLEM = "the process that decoded this message ended before it had finished"


class OnRecord:
    """The record of one feed: entries that end with how many processes have ended over their messages.

    What stands for the messages before it, an id or a range of offsets, is the feed's affair.

    Args:
        folder: the run's folder.

    Raises:
        ValueError: if the file is damaged; it names the file.
    """

    def __init__(self, folder: str) -> None:
        make_folder(folder)
        self._path = join(folder, NAME)
        content = read_json(self._path) if exists(self._path) else []
        try:
            #: The entries of messages that were on record when an earlier process ended.
            self.suspects: Sequence[Sequence[Any]] = [[*what, int(ends)] for *what, ends in content]
        except (TypeError, ValueError) as error:
            raise ValueError(f"{self._path}: it is damaged ({error!r})") from None
        #: The suspects that are left when what was taken last is done with; None if nothing is on record.
        self._after: Sequence[Sequence[Any]] | None = None

    def write(self, taken: Iterable[Sequence[Any]], after: Sequence[Sequence[Any]]) -> None:
        """Have messages on record.

        Args:
            taken: their entries, by which the next process knows them if this one ends.
            after: the suspects that are left once they are done with.
        """
        self._after = after
        self._write([*after, *taken])

    def clear(self) -> None:
        """Have what was taken last on record no more: it is done with."""
        if self._after is None:
            return
        self.suspects, self._after = self._after, None
        if self.suspects:
            self._write(self.suspects)
        else:
            delete([self._path])

    def _write(self, entries: Sequence[Sequence[Any]]) -> None:
        with replacing(self._path, private=True, durable=False) as stream:
            stream.write(json.dumps(entries).encode())


def at_once(ends: int, most: int) -> int:
    """How many messages to decode together after a number of crashes; ``most`` at first."""
    return 1 if ends >= ALONE else FEW if ends == 2 else most


def ended(ends: int, messages: int) -> int:
    """How many processes have ended over messages if this one does."""
    return max(ends, ALONE) + 1 if messages == 1 else ends + 1


def forget(folder: str) -> None:
    """Have nothing on record in a run's folder: no message on it is delivered again."""
    delete([join(folder, NAME)])
