"""What the tests of ``ldpbeam stream`` share: runs of it as a person starts them, and what they leave."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
import numpy as np

from ldpbeam.pipelines.report_files import SentReports
from ldpbeam.schemas.snapshots import Snapshot, read_snapshots
from ldpbeam.schemas.study import Study
from ldpbeam.schemas.study_file import parse_study
from ldpbeam.statistics import Statistic
from ldpbeam.transforms.journal import OpenWindow, named_windows

CLIENT = Path(__file__).parents[2] / "examples" / "stream" / "client.py"
PATIENCE = 180.0  # seconds until something that should come is given up; never reached when all is well
SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
#: An hour of a week ago: event times of a backlog, in whole windows.
WEEK_AGO = time.time_ns() // 1_000_000 // HOUR * HOUR - 7 * 24 * HOUR
#: Set in the environment of a run, and so of every process that it starts.
MARK = "LDPBEAM_TESTED_RUN"
#: What of an estimate tells panes and runs apart; all else must be the batch run's.
OF_A_PANE = ("pane_index", "pane_timing", "complete", "run")

#: Of a statistic: attribute, window, group, how many groups were added up; of an estimate its name too.
Key = tuple[Any, ...]


def _client() -> Any:
    spec = importlib.util.spec_from_file_location("stream_client", CLIENT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


client = _client()


def rides(windows: str) -> str:
    """A study of one number told to two services that are joined, with these windows."""
    return (
        "study: rides\nattributes:\n  minutes:\n    domain: {numeric: [0, 180]}\n    buckets: 32\n"
        "    services: {maps: {mechanism: square_wave, epsilon: 1.0}, "
        "taxi: {mechanism: piecewise, epsilon: 0.5}}\n"
        "    estimates: {together: {estimator: ule}, mean: {estimator: ivw}}\n"
        f"windows: {{{windows}}}\n"
    )


class Stream:
    """A run of ``ldpbeam stream`` in a process of its own."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, output: Path, mark: str) -> None:
        self.process = process
        self.log = log
        self.output = output
        self.mark = mark

    @property
    def said(self) -> str:
        """All it has printed so far."""
        return self.log.read_text(errors="replace")

    @property
    def left(self) -> Left:
        """What it has written so far."""
        found = re.search(r"^run (\S+): reading ", self.said, re.MULTILINE)
        assert found, self.said
        return Left(self.output, found[1])

    def wait_until(self, truth: Callable[[], bool]) -> None:
        """Wait for something that comes true while it runs."""
        end = time.monotonic() + PATIENCE
        while not truth():
            assert self.process.poll() is None, f"it has ended:\n{self.said}"
            assert time.monotonic() < end, f"it did not come true:\n{self.said}"
            time.sleep(0.05)

    def wait_until_said(self, pattern: str, times: int = 1) -> None:
        """Wait for lines that have a pattern in them."""
        self.wait_until(lambda: len(re.findall(pattern, self.said, re.MULTILINE)) >= times)

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        return self.process.wait(PATIENCE)

    def end(self, number: signal.Signals) -> int:
        """Send it a signal, and wait for the exit code."""
        self.process.send_signal(number)
        return self.wait()

    def processes(self) -> list[int]:
        """Those that it started and that still run, itself among them."""
        marked = f"{MARK}={self.mark}".encode()
        return [
            int(entry.name)
            for entry in Path("/proc").iterdir()
            if entry.name.isdigit() and marked in _environment(entry).split(b"\0")
        ]


def _environment(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:  # it has ended, or is somebody else's
        return b""


@contextlib.contextmanager
def streaming(folder: Path, study: str, prism: str, *options: object) -> Iterator[Stream]:
    """``ldpbeam stream`` into ``folder/output``; at the end of the block nothing of it is left running."""
    folder.mkdir(parents=True, exist_ok=True)
    path, output = folder / "study.yaml", folder / "output"
    path.write_text(study)
    mark = uuid.uuid4().hex
    log = folder / f"said-{mark}"
    command = [sys.executable, "-m", "ldpbeam.pipelines.main", "stream", "--study", path, "--output", output]
    with log.open("wb") as said:
        process = subprocess.Popen(
            [*map(str, command), "--prism-location", prism, *map(str, options)],
            stdout=said,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, MARK: mark},
        )
    stream = Stream(process, log, output, mark)
    try:
        yield stream
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        for own in stream.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(own, signal.SIGKILL)


@dataclass(frozen=True)
class Left:
    """What one run of a stream left in its output folder."""

    output: Path
    run: str

    @property
    def own(self) -> Path:
        """The run's own folder."""
        return self.output / "runs" / self.run

    @property
    def accounting(self) -> dict[str, Any]:
        """Empty before anything was counted."""
        path = self.own / "accounting.json"
        return json.loads(path.read_text()) if path.exists() else {}

    @property
    def snapshots(self) -> dict[Key, Snapshot]:
        found: list[Snapshot] = []
        for path in (self.output / "statistics").glob(f"*.{self.run}.avro"):
            with path.open("rb") as stream:
                found += read_snapshots(stream)
        return {place_of(snapshot): snapshot for snapshot in found}

    @property
    def statistics(self) -> dict[Key, Statistic]:
        return {place: snapshot.statistic for place, snapshot in self.snapshots.items()}

    @property
    def records(self) -> list[dict[str, Any]]:
        """Estimates as they stand in files."""
        paths = sorted((self.output / "estimates").glob(f"*.{self.run}.jsonl"))
        return [json.loads(line) for path in paths for line in path.read_text().splitlines()]

    @property
    def estimates(self) -> dict[Key, dict[str, Any]]:
        return answers(self.records)

    @property
    def dead_letters(self) -> list[dict[str, Any]]:
        found: list[Any] = []
        for path in (self.own / "dead_letters").glob("*.avro"):
            with path.open("rb") as stream:
                found += fastavro.reader(stream)
        return found

    @property
    def named(self) -> set[OpenWindow]:
        """The windows in its journal."""
        return named_windows(str(self.output), self.run)


def place_of(snapshot: Snapshot) -> Key:
    return snapshot.attribute, snapshot.window, snapshot.group, snapshot.other_groups


def statistics_of(snapshots: Sequence[Snapshot]) -> dict[Key, Statistic]:
    """Those of a batch run, as :attr:`Left.statistics`."""
    return {place_of(snapshot): snapshot.statistic for snapshot in snapshots}


def answers(records: Sequence[Mapping[str, Any]]) -> dict[Key, dict[str, Any]]:
    """What estimates say, whichever pane and run they are of."""
    places = ("attribute", "window_start", "window_end", "group", "other_groups", "name")
    return {
        tuple(record[place] for place in places): {
            name: value for name, value in record.items() if name not in OF_A_PANE
        }
        for record in records
    }


def closes(accounting: Mapping[str, Any]) -> bool:
    """Whether every report that came in is accounted for."""
    parts = ("used", "duplicates", "late", "out_of_range", "dead_letters")
    return accounting["in"] == sum(accounting[part] for part in parts)


def reports_of(
    study: Study | str, who: str, times: Sequence[int] | np.ndarray, seed: int
) -> list[SentReports]:
    """What people send to both services of ``rides``, one at each of these times."""
    times = np.asarray(times, dtype=np.int64)
    study = parse_study(study) if isinstance(study, str) else study
    minutes = 180 * np.random.default_rng(seed).beta(2, 5, len(times))
    users = [f"{who}-{number}" for number in range(len(times))]
    found: list[SentReports] = client.perturbed(study, "minutes", minutes, users, times, seed)
    return found


def evenly(start: int, length: int, people: int) -> np.ndarray:
    """So many event times in [start, start + length), ascending."""
    return start + np.arange(people) * length // people


def publish(topic: str, messages: Sequence[Any]) -> list[str]:
    """Publish messages in this very order; gives their ids.

    The publisher of the library sends several requests at a time, so it keeps no order.
    """
    from google.pubsub_v1 import PublisherClient

    publisher = _to_server(PublisherClient)
    ids: list[str] = []
    with contextlib.closing(publisher.transport):
        for part in _requests(messages):
            bodies = [{"data": m.data, "attributes": {"content-type": m.content_type}} for m in part]
            request = {"topic": topic, "messages": bodies}
            ids += publisher.publish(request=request, timeout=PATIENCE).message_ids
    return ids


def _requests(messages: Sequence[Any]) -> Iterator[list[Any]]:
    part: list[Any] = []
    size = 0
    for message in messages:
        if part and (len(part) == 500 or size + len(message.data) > 2**22):
            yield part
            part, size = [], 0
        part.append(message)
        size += len(message.data)
    if part:
        yield part


def _to_server(kind: Any) -> Any:
    """A bare client of the server in ``PUBSUB_EMULATOR_HOST``."""
    import grpc

    options = [("grpc.max_receive_message_length", -1)]
    channel = grpc.insecure_channel(os.environ["PUBSUB_EMULATOR_HOST"], options=options)
    return kind(transport=kind.get_transport_class("grpc")(channel=channel))


def pulled(subscription: str, count: int) -> list[Any]:
    """So many messages of a subscription, acknowledged, and any that come with the last of them."""
    from google.api_core.exceptions import DeadlineExceeded
    from google.pubsub_v1 import SubscriberClient

    subscriber = _to_server(SubscriberClient)
    found: list[Any] = []
    end = time.monotonic() + PATIENCE
    with contextlib.closing(subscriber.transport):
        while len(found) < count and time.monotonic() < end:
            request = {"subscription": subscription, "max_messages": 1000}
            with contextlib.suppress(DeadlineExceeded):
                received = subscriber.pull(request=request, timeout=5, retry=None).received_messages
                found += [one.message for one in received]
                if received:
                    receipts = [one.ack_id for one in received]
                    subscriber.acknowledge(request={"subscription": subscription, "ack_ids": receipts})
    return found
