"""The files of a stream's state: their names, what they say, and before what each must be written.

They lie in the folder of a run, beside the folders of its outputs. Readers and workers write them while the
run goes on; the next process reads them. A file is written before the event that relies on it: wherever a
process is killed, the files say no less than what has happened. ``docs/streaming.md`` has them as a table.
Two of them are outputs of other runs, too, and have their records in :mod:`ldpbeam.schemas.outputs.records`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import methodcaller
from typing import Any, Generic, TypeVar

from ldpbeam.transforms.outputs import names
from ldpbeam.transforms.patterns import matching
from ldpbeam.transforms.state.records import JournalRecord, Steps
from ldpbeam.transforms.storage import delete, exists, join, literal, make_folder, read_json, replacing

Value = TypeVar("Value")


def run_folder(output: str, run: str) -> str:
    """The folder of a run in an output folder."""
    return join(output, names.RUNS, run)


@dataclass(frozen=True)
class Kind(Generic[Value]):
    """A kind of file in the folder of a run; each file is JSON, and appears whole or not at all.

    Attributes:
        name: the file's name, with a ``*`` for each part that tells files of the kind apart.
        before: the event before which the file is written.
        to_json: what of a value is written.
        of_json: the value of what was written.
        durable: whether a local disk has the file when it is written, so that no power failure takes it.
        private: whether its owner alone may read it.
        indent: by how many spaces its lines are indented; None for one line.
    """

    name: str
    before: str
    to_json: Callable[[Value], Any]
    of_json: Callable[[Any], Value]
    durable: bool = True
    private: bool = False
    indent: int | None = None

    def path(self, folder: str, *parts: object) -> str:
        """The path of a file in a run's folder."""
        name = self.name
        for part in parts:
            name = name.replace("*", str(part), 1)
        return join(folder, name)

    def exists(self, folder: str) -> bool:
        """Whether the file is in a run's folder."""
        return exists(self.path(folder))

    def write(self, folder: str, value: Value, *parts: object) -> None:
        """Write a file in a run's folder, which is made if it does not exist."""
        make_folder(folder)
        self._write(self.path(folder, *parts), value)

    def read(self, folder: str, *parts: object) -> Value | None:
        """What a file in a run's folder says; None if there is none.

        Raises:
            ValueError: if it is damaged; it names the file.
        """
        path = self.path(folder, *parts)
        return self._read(path) if exists(path) else None

    def each(self, folder: str) -> dict[str, Value]:
        """What the files of this kind in a run's folder say, by their paths, which are sorted.

        Raises:
            ValueError: if one is damaged; it names the file.
        """
        return {path: self._read(path) for path in self._paths(literal(folder))}

    def of_all_runs(self, output: str) -> Iterator[Value]:
        """What the files of all runs into an output folder say.

        Raises:
            ValueError: if one is damaged; it names the file.
        """
        return map(self._read, self._paths(_of_all(output)))

    def runs(self, output: str) -> list[str]:
        """The names of the runs into an output folder that have such a file, sorted."""
        return sorted({path.split("/")[-2] for path in self._paths(_of_all(output))})

    def change(self, output: str, changed: Callable[[Value], Value]) -> None:
        """Write the files of all runs into an output folder anew."""
        for path in self._paths(_of_all(output)):
            self._write(path, changed(self._read(path)))

    def delete(self, folder: str) -> None:
        """Delete the files of this kind in a run's folder."""
        delete(self._paths(literal(folder)))

    def _paths(self, folders: str) -> list[str]:
        return [entry.path for entry in matching(join(folders, self.name))]

    def _read(self, path: str) -> Value:
        content = read_json(path)
        try:
            return self.of_json(content)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"{path}: it is damaged ({error!r})") from None

    def _write(self, path: str, value: Value) -> None:
        content = json.dumps(self.to_json(value), indent=self.indent).encode() + b"\n"
        with replacing(path, private=self.private, durable=self.durable) as stream:
            stream.write(content)


def _of_all(output: str) -> str:
    return join(literal(output), names.RUNS, "*")


_content = methodcaller("to_json")
_fields = methodcaller("_asdict")

#: What the run is and reads.
RUN: Kind[dict[str, Any]] = Kind(names.RUN, "the run begins to read", dict, dict, indent=2)
#: The windows, offsets and checksums of what a reader has read, by its number.
JOURNAL = Kind("journal-*.json", "reports are acknowledged", _content, JournalRecord.of_json)
#: By which watermark and clock the batches of a partition are judged, by the reader and the partition.
STEPS = Kind("steps-*-*.json", "a batch of a step is counted", _fields, Steps.of_json)
#: The ids of messages that are being decoded. A power failure may lose them: no message has caused it.
DECODING: Kind[Sequence[str]] = Kind(
    "decoding-*.json",
    "the stages that run in its process have passed them on",
    lambda messages: {"messages": list(messages)},
    lambda content: list(content["messages"]),
    durable=False,
    private=True,
)
#: The parts of files that are acknowledged.
FILES: Kind[Sequence[str]] = Kind("files.json", "later runs leave the parts out", sorted, list)
#: A request to stop; that the file exists is all that it says.
STOP: Kind[None] = Kind("stop.json", "the readers stop", lambda _: {}, lambda _: None)
