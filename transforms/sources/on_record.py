"""The record of the messages that were taken last, by which one that ends the process is found.

A message that ends the process is not acknowledged, so the server delivers it again, and each process would
end. Therefore what is taken is on record in the run's folder before it is decoded, until the next take: the
record covers the decoding, and what the run does with the reports before it takes more. A process that finds
messages on record takes each of them alone. One that ended two processes alone is a dead letter: one of them
may have been killed by somebody. The file guards against the end of the process and not of the machine, which
no message causes, so nobody waits for the disk.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ldpbeam.transforms.storage import delete, exists, join, make_folder, read_json, replacing

#: The file in the run's folder.
NAME = "decoding.json"
#: A message is at fault if this many processes ended when it was on record alone.
ENDS = 2
#: The reason of the dead letter of a message that is at fault.
DEFEATED = "defeated_decoder"
PROBLEM = "the process that decoded this message ended before it had finished"


class OnRecord:
    """The record of one feed. What stands for messages, an id or a range of offsets, is the feed's affair.

    Args:
        folder: the run's folder.

    Raises:
        ValueError: if the file is damaged; it names the file.
    """

    def __init__(self, folder: str) -> None:
        make_folder(folder)
        self._path = join(folder, NAME)
        content = read_json(self._path) if exists(self._path) else {"suspects": [], "ends": {}}
        try:
            #: What stands for the messages that were on record when an earlier process ended.
            self.suspects = list(content["suspects"])
            self._ends = {str(message): int(ends) for message, ends in content["ends"].items()}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"{self._path}: it is damaged ({error!r})") from None
        self._alone: str | None = None
        #: The suspects that are left when what was taken last is done with; None if nothing is on record.
        self._after: list[Any] | None = None

    @property
    def at_fault(self) -> list[str]:
        """The ids of messages that ended so many processes alone that none decodes them."""
        return [message for message, ends in self._ends.items() if ends >= ENDS]

    def write(self, taken: Sequence[Any]) -> None:
        """Have several messages on record, beside the suspects."""
        self._after = self.suspects
        self._write([*self.suspects, *taken])

    def write_alone(self, message: str, suspects: Sequence[Any], after: Sequence[Any]) -> bool:
        """Have one message on record as being alone; whether it may be decoded at all.

        Args:
            message: its id.
            suspects: the suspects, of which it is one.
            after: those that are left once it is done with.
        """
        self._after = list(after)
        if self._ends.get(message, 0) >= ENDS:
            # It stays at fault, should this process end before the run has committed that it is a letter.
            return False
        self._alone = message
        self._ends[message] = self._ends.get(message, 0) + 1
        self._write(suspects)
        return True

    def clear(self) -> None:
        """Have what was taken last on record no more: it is done with."""
        if self._after is None:
            return
        if self._alone is not None:
            del self._ends[self._alone]
            self._alone = None
        self.suspects, self._after = self._after, None
        if self.suspects or self._ends:
            self._write(self.suspects)
        else:
            delete([self._path])

    def _write(self, suspects: Sequence[Any]) -> None:
        with replacing(self._path, private=True, durable=False) as stream:
            stream.write(json.dumps({"suspects": suspects, "ends": self._ends}).encode())


def forget(folder: str) -> None:
    """Have nothing on record in a run's folder: no message on it is delivered again."""
    delete([join(folder, NAME)])
