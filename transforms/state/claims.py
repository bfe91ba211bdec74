"""What the readers of a run tell each other: files in the run's folder, which every worker reaches.

Each reader has some partitions of a topic. The watermark is over the partitions of all, and so is the end of
a stream in which nothing arrives.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from apache_beam.io.filesystems import FileSystems

from ldpbeam.transforms.storage import make_folder, read_json, replacing
from ldpbeam.windows import FAR

#: The files in a run's folder, of one reader each.
CLAIMS = "claims-*.json"


class Claims(NamedTuple):
    """What the partitions of one reader say.

    Attributes:
        each: the claim of each partition that has one, in epoch milliseconds.
        least: the least that a partition counts as; None if none counts.
        waits: whether a partition holds up all others, because nothing is known of it yet.
        idle: for how many milliseconds nothing is known to have arrived.
    """

    each: tuple[int, ...] = ()
    least: int | None = None
    waits: bool = True
    idle: int = 0


#: The claims of a reader that was asked to stop: it holds up no other reader.
STOPPED = Claims(waits=False)
#: The claims of a reader that ended because nothing arrived at any reader, so that all of them end. They hold
#: for the whole run, even if the engine goes back to a checkpoint: everything read by then was committed.
ENDED = Claims(waits=False, idle=FAR)


def tell(folder: str, reader: int, claims: Claims) -> None:
    """Tell the other readers of a run what the partitions of a reader say.

    Args:
        folder: the run's folder.
        reader: the place of the run that the reader reads, from 0.
        claims: what its partitions say.
    """
    make_folder(folder)
    # Not durable: after a power failure, the next process of this reader writes the file again.
    with replacing(_path(folder, reader), durable=False) as stream:
        stream.write(json.dumps(claims._asdict()).encode() + b"\n")


def heard(folder: str, reader: int, readers: int) -> list[Claims]:
    """What the other readers of a run said last; one that has said nothing yet holds up all others.

    Args:
        folder: the run's folder.
        reader: the place of the run that the reader reads who asks, from 0.
        readers: how many readers there are.
    """
    paths = [_path(folder, other) for other in range(readers) if other != reader]
    said = [read_json(path) if FileSystems.exists(path) else {} for path in paths]
    # JSON has no tuples.
    return [Claims(**claims)._replace(each=tuple(claims.get("each", ()))) for claims in said]


def _path(folder: str, reader: int) -> str:
    return str(FileSystems.join(folder, CLAIMS.replace("*", str(reader))))
