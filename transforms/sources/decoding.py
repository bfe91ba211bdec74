"""A record of the messages that are being decoded, written before decoding begins.

A message that crashes the process is not acknowledged, so the server delivers it again, and every restart
would crash too. A restart therefore looks for messages that are still on record, and decodes these alone. A
message becomes a dead letter when two processes ended while they decoded it alone: one may have been killed.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from apache_beam.io.filesystems import FileSystems

from ldpbeam.transforms.storage import literal, make_folder, read_json, replacing

#: The reason of the dead letter of a message that crashed the process alone.
DEFEATED = "defeated_decoder"
PROBLEM = "the process that decoded this message ended before it had finished"
#: So many processes that ended while they decoded a message alone prove that it was the message.
ENDS = 2
_NAME = "decoding-{}.json"


def left_on_record(folder: str) -> dict[str, bool]:
    """The ids of messages whose decoding did not finish, and whether :data:`ENDS` processes ended with it.

    Args:
        folder: the folder of a run, or a Beam pattern that matches the folders of several runs.

    Raises:
        ValueError: if a record is damaged.
    """
    alone: dict[str, int] = {}
    for entry in FileSystems.match([FileSystems.join(folder, _NAME.format("*"))])[0].metadata_list:
        ids = read_json(entry.path)["messages"]
        for message in ids:
            alone[message] = alone.get(message, 0) + (len(ids) == 1)
    return {message: ends >= ENDS for message, ends in alone.items()}


class Record:
    """The record of one reader of a run.

    Args:
        folder: the run's folder.
        earlier: what earlier runs left on record, as :func:`left_on_record` gives it.
    """

    def __init__(self, folder: str, earlier: Mapping[str, bool]) -> None:
        self._folder = folder
        # A reader that is made again in the same run, after a crash, takes over the records left by the last.
        recorded = left_on_record(literal(folder))
        self.suspects = {
            key: recorded.get(key, False) or earlier.get(key, False) for key in {*recorded, *earlier}
        }
        self._path = FileSystems.join(folder, _NAME.format(uuid.uuid4().hex))

    @contextmanager
    def of(self, messages: Sequence[str]) -> Iterator[None]:
        """Keep message ids on record during the block; the record is deleted at its end, also on an error."""
        make_folder(self._folder)
        with replacing(self._path, private=True) as stream:
            stream.write(json.dumps({"messages": list(messages)}).encode() + b"\n")
        try:
            yield
        finally:
            FileSystems.delete([literal(self._path)])
