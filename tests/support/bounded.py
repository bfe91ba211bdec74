"""Decoding in a process of its own, whose memory and processor time are limited and measured."""

from __future__ import annotations

import multiprocessing
import resource
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from ldpbeam.schemas.messages.decode import BadMessage, Message, decode_messages
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.reports.dead_letters import DeadLetter
from ldpbeam.transforms.sources.files import sniff
from ldpbeam.transforms.sources.read import read_range, split_or_keep

#: What decoding may add to a process, in bytes.
MOST_GROWTH = 512 * 2**20
#: A child that needs more is ended by an error, before the machine is in danger.
_MOST_ADDED = 3 * 2**30
#: Makes children of a process that has imported what they need.
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(["ldpbeam.schemas.messages.decode", "ldpbeam.transforms.sources.read"])


class Decoded(NamedTuple):
    """What some bytes decode to.

    Attributes:
        reports: how many reports are in the batches.
        bad: how many reports are in dead letters, by reason.
        letters: how many dead letters there are.
        problems: what the first few of them say.
    """

    reports: int
    bad: dict[str, int]
    letters: int
    problems: list[str]


def decode_file(path: Path, extras: tuple[str, ...] = ()) -> Decoded:
    """A file as a run reads it: told by its first bytes, split, and each range decoded."""
    reports, letters = 0, []
    kind = sniff(str(path), path.stat().st_size)
    for part in split_or_keep(kind):
        for item in read_range(part, Columns(extras=extras)):
            if isinstance(item, DeadLetter):
                letters.append(item._replace(record=b""))
            else:
                reports += item.num_rows
    return _decoded(reports, [(letter.reason, letter.reports, letter.detail) for letter in letters])


def decode_message(path: Path, content_type: str) -> Decoded:
    """A message whose data is a file's; like a feed_batch, all of its batches are held at once."""
    batches, letters = [], []
    for item in decode_messages([Message("17", path.read_bytes(), content_type)], Columns()):
        if isinstance(item, BadMessage):
            letters.append((item.reason, item.reports, item.problem))
        else:
            batches.append(item)
    return _decoded(sum(batch.num_rows for batch in batches), letters)


def _decoded(reports: int, letters: list[tuple[str, int, str]]) -> Decoded:
    bad: Counter[str] = Counter()
    for reason, number, _ in letters:
        bad[reason] += number
    return Decoded(reports, dict(bad), len(letters), [problem for *_, problem in letters[:3]])


def bounded(work: Callable[..., Decoded], *args: Any, seconds: int = 60) -> Decoded:
    """The result of some work, which may add 512 MB and take so many seconds of processor time."""
    mine, theirs = FORKED.Pipe(duplex=False)
    child = FORKED.Process(target=_work, args=(theirs, seconds, work, args))
    child.start()
    theirs.close()
    try:
        result, growth = mine.recv()
    except EOFError:
        child.join()
        raise AssertionError(
            f"the process ended with {child.exitcode}: memory, or {seconds} s of processor time"
        ) from None
    child.join()
    if isinstance(result, BaseException):
        raise AssertionError(f"it ended in {result!r}")
    assert growth <= MOST_GROWTH, f"it added {growth / 2**20:.0f} MB"
    return result


def _work(answer: Connection, seconds: int, work: Callable[..., Decoded], args: tuple[Any, ...]) -> None:
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before, size = _status("VmRSS"), _status("VmSize")
    resource.setrlimit(resource.RLIMIT_AS, (size + _MOST_ADDED, size + _MOST_ADDED))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    result: Any
    try:
        result = work(*args)
    except BaseException as error:  # the parent says it
        result = error
    answer.send((result, _status("VmHWM") - before))


def _status(name: str) -> int:
    """A size of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"{name}:"))
    return 1024 * int(line.split()[1])
