"""What can be read: the options of each source, and the module that opens it.

A new source is a module in :mod:`ldpbeam.pipelines.sources`, and an entry of :data:`STREAMED`, of
:data:`BOUNDED`, or of both.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

from ldpbeam.errors import UserError


class Option(NamedTuple):
    """An option, with the settings that argparse calls so."""

    name: str
    metavar: str
    help: str
    nargs: str | None = None


@dataclass(frozen=True)
class Source:
    """A kind of thing to read.

    Attributes:
        module: the module in ``ldpbeam.pipelines.sources`` whose function ``opening`` takes the options of a
            stream, and whose function ``spanned`` those of a batch run; empty for files. It is imported when
            a run reads from the source.
        said: how one names such a thing, for messages.
        names: the options of which each names one.
        options: the options that the source adds.
        shares: the options of other sources that it obeys, too.
    """

    module: str
    said: str
    names: tuple[str, ...]
    options: tuple[Option, ...]
    shares: tuple[str, ...] = ()

    def add_options(self, group: argparse._ArgumentGroup) -> None:
        """Add its options."""
        for name, metavar, text, nargs in self.options:
            group.add_argument(name, metavar=metavar, help=text, nargs=nargs)


def module_of(name: str) -> Any:
    """A module in ``ldpbeam.pipelines.sources``."""
    return import_module(f"ldpbeam.pipelines.sources.{name}")


def enumerated(sources: Sequence[Source], joint: str) -> str:
    """How one names what can be read, with a word before the last."""
    *others, last = (source.said for source in sources)
    return f"{', '.join(others)}, {joint} {last}"


def named(sources: Sequence[Source], options: argparse.Namespace, allowed: Collection[str] = ()) -> Source:
    """The source of the one thing that is named.

    Args:
        sources: those that the command has.
        options: the options of the command.
        allowed: options that may be given although another source has them.

    Raises:
        UserError: if none or several are named, or an option of another source is given.
    """
    every = [(source, option.name) for source in sources for option in source.options]
    given = {name for _, name in every if getattr(options, name[2:].replace("-", "_")) is not None}
    shared = {each for source in sources if given.intersection(source.names) for each in source.shares}
    names = [(source, name) for source in sources for name in source.names if name in given - shared]
    if len(names) != 1:
        raise UserError(f"name one thing to read: {enumerated(sources, 'or')}")
    for source, name in every:
        if source is not names[0][0] and name in given.difference(shared, allowed):
            raise UserError(f"{name} goes with {source.said}")
    return names[0][0]


def _of_kafka(from_offset: str) -> tuple[Option, ...]:
    """The options that name a topic of Kafka, but for ``--topic``; the text says where reading begins."""
    return (
        Option("--kafka", "BROKERS", "HOST:PORT of a broker, or of several, with commas between"),
        Option("--from-offset", "WHERE",
               f"Kafka: {from_offset}: earliest, latest or a time of the brokers (default: earliest)"),
        Option("--kafka-config", "FILE",
               "Kafka: settings of librdkafka, as name=value lines; ${NAME} is an environment variable"),
    )  # fmt: skip


#: The module of a topic to which estimates are published, and its options, by how its name begins.
PUBLISHED = {"kafka://": ("kafka", ("--kafka-config",)), "": ("pubsub", ())}
#: What a stream can read.
STREAMED = (
    Source(
        "pubsub", "--subscription, --topic (projects/P/topics/T)", ("--subscription", "--topic"), (
            Option("--subscription", "NAME", "projects/P/subscriptions/S, whose messages are reports"),
            Option("--topic", "NAME", "projects/P/topics/T: subscribe to it for this run alone; or, with "
                   "--kafka, a topic of Kafka"),
        ),
    ),
    Source(
        "folder", "--input", ("--input",),
        (Option("--input", "FILE", "globs: files of reports, read as they appear", nargs="+"),),
    ),
    Source(
        "kafka", "--kafka BROKERS --topic T", ("--kafka",), (
            *_of_kafka("where the first run into the folder begins"),
            Option("--group", "NAME",
                   "Kafka: commit offsets for this group, for monitoring; they are never read back"),
        ), shares=("--topic",),
    ),
)  # fmt: skip
#: What a batch run can read.
BOUNDED = (
    Source(
        "", "--input FILE", ("--input",),
        (Option("--input", "FILE", "files of reports, or globs", nargs="+"),),
    ),
    Source(
        "", "--again FOLDER", ("--again",),
        (Option("--again", "FOLDER",
                "output folders: records that were dead letters there and are kept (--keep-bad-records)",
                nargs="+"),),
    ),
    Source(
        "", "--counts FILE", ("--counts",),
        (Option("--counts", "FILE", "Parquet or CSV: what a GROUP BY counts (docs/counts.md)", nargs="+"),),
    ),
    Source(
        "kafka", "--kafka BROKERS --topic T", ("--kafka",), (
            Option("--topic", "NAME", "Kafka: the topic, whose messages are reports"),
            *_of_kafka("where to begin in each partition"),
            Option("--to-offset", "WHERE", "Kafka: where to end: earliest, latest or a time of the brokers "
                   "(default: latest, as it is when the run begins)"),
        ),
    ),
)  # fmt: skip
