"""The last stages of a stream: each pane is written to files, logged, and published if asked."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import apache_beam as beam

from ldpbeam.schemas.outputs.estimates import json_fields
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.schemas.outputs.snapshots import EARLY, Snapshot
from ldpbeam.study import Study
from ldpbeam.times import rfc3339
from ldpbeam.transforms.outputs.estimates import write_window_estimates
from ldpbeam.transforms.outputs.names import STATISTICS
from ldpbeam.transforms.outputs.snapshots import write_window
from ldpbeam.transforms.reports.counts import NOT_BEGUN, of_window
from ldpbeam.transforms.reports.emitted import count
from ldpbeam.transforms.state.journal import NEVER, ended_at, lost_before, stopped_at
from ldpbeam.transforms.state.records import Incomplete
from ldpbeam.transforms.storage import join
from ldpbeam.untrusted import shown
from ldpbeam.words import counted

#: The logger that gets one line per pane; a command prints it, an engine's worker logs it.
PANES = logging.getLogger("ldpbeam.panes")
#: Seconds to wait until a server has the estimates of a bundle.
PATIENCE = 60.0


@dataclass(frozen=True)
class Solved:
    """The snapshots of an attribute in one window, or in one pane of it, and their estimates in order.

    Windows and groups that are not to be estimated have snapshots and no estimates.
    """

    snapshots: list[Snapshot]
    estimates: list[EstimateRecord]


@dataclass(eq=False)
class WritePaneStatistics(beam.DoFn):
    """Write the snapshots of (attribute, snapshots of one pane), and emit them as they are written.

    A pane replaces its window's files, whose names have the run's. Panes that fire because the run was asked
    to stop are marked as early, since their windows have not closed. A window that has not begun is not
    published: its reports have false times. At the end of the run they are counted.

    Attributes:
        study: the study.
        output: the output folder.
        run: the name of the run.
        incomplete: the windows that may lack reports.
        again: whether an earlier process of the run may have written panes.
    """

    study: Study
    output: str
    run: str
    incomplete: Incomplete
    again: bool = False

    def process(self, element: tuple[str, list[Snapshot]]) -> Iterator[Any]:
        """Write the file of a pane's snapshots."""
        attribute, snapshots = element
        window = snapshots[0].window
        assert window is not None
        ended = ended_at(self.output, self.run) if window[0] > time.time() * 1000 else None
        if ended is not None and window[0] > ended:
            reports = sum(snapshot.statistic.reports for snapshot in snapshots)
            yield count(NOT_BEGUN, reports, of_window(window) if self.again else "")
            return
        if snapshots[0].pane_timing == EARLY and window[0] > time.time() * 1000:
            return
        if self.again and stopped_at(self.output, self.run) == NEVER:
            # The run was stopped while it read messages again: an earlier process's pane has more reports.
            return
        snapshots = self._judged(attribute, snapshots)
        folder = join(self.output, STATISTICS)
        write_window(self.study, folder, self.run, snapshots, named_by_run=True)
        yield attribute, snapshots

    def _judged(self, attribute: str, snapshots: Sequence[Snapshot]) -> list[Snapshot]:
        """The snapshots with ``complete`` set; early ones if the run stopped before the window's end."""
        window = snapshots[0].window
        assert window is not None
        timing = snapshots[0].pane_timing
        if timing != EARLY:
            stopped = stopped_at(self.output, self.run)
            if stopped is not None and window[1] > stopped:
                timing = EARLY
        lost = lost_before(self.output, self.run) if timing != EARLY else None
        lacks = self.incomplete.holds(attribute, window) or (lost is not None and window[0] < lost)
        complete = timing != EARLY and not lacks
        return [replace(snapshot, pane_timing=timing, complete=complete) for snapshot in snapshots]


@dataclass(eq=False)
class WritePaneEstimates(beam.DoFn):
    """Write the estimates of a pane, log its line, and emit the estimates.

    Attributes:
        study: the study.
        output: the output folder.
        run: the name of the run.
    """

    study: Study
    output: str
    run: str

    def process(self, pane: Solved) -> Iterator[EstimateRecord]:
        """Write the files of a pane's estimates."""
        study, output, run = self.study, self.output, self.run
        first = pane.snapshots[0]
        records = [replace(record, run=run) for record in pane.estimates]
        # The files of an earlier pane are replaced, though the window has no estimate now.
        if records or first.pane_index:
            write_window_estimates(
                study, output, run, first.attribute, first.window, records, named_by_run=True
            )
        unsolved = "" if records else ", not estimated"
        if self.study.described(first.attribute).candidates is not None and not first.table:
            unsolved += ": its places have no names"
        PANES.info(
            pane_line(pane.snapshots, records) + unsolved,
            extra={"fields": pane_fields(pane.snapshots, records)},
        )
        yield from records


def pane_line(snapshots: Sequence[Snapshot], estimates: Sequence[EstimateRecord]) -> str:
    """One line about a pane: window, timing, reports, users and means."""
    first = snapshots[0]
    assert first.window is not None
    start, end = map(rfc3339, first.window)
    reports = sum(snapshot.statistic.reports for snapshot in snapshots)
    users = [snapshot.statistic.users for snapshot in snapshots if snapshot.statistic.users is not None]
    of_users = f" of {counted(sum(users), 'user')}" if users else ""
    pane = first.pane_timing.replace("_", " ") + (f" {first.pane_index}" if first.pane_index else "")
    means = [
        f"{record.name} {record.mean:.6g}"
        for record in estimates
        if record.group is None and record.mean is not None
    ]
    of_means = f": {', '.join(means)}" if means else ""
    differ = [record.alarm.number for record in estimates if record.alarm and record.alarm.differs]
    of_means += f"; differs from those before: {', '.join(dict.fromkeys(differ))}" if differ else ""
    mark = " (incomplete)" if first.pane_timing != EARLY and not first.complete else ""
    return shown(
        f"{first.attribute} {start} to {end} {pane}{mark}: {counted(reports, 'report')}{of_users}{of_means}"
    )


def pane_fields(snapshots: Sequence[Snapshot], estimates: Sequence[EstimateRecord]) -> dict[str, object]:
    """What a log that programs read says of a pane; nothing of it is a text that a client wrote."""
    first = snapshots[0]
    assert first.window is not None
    start, end = map(rfc3339, first.window)
    return {
        "event": "pane",
        "attribute": first.attribute,
        "window_start": start,
        "window_end": end,
        "pane_timing": first.pane_timing,
        "pane_index": first.pane_index,
        "complete": first.complete,
        "reports": sum(snapshot.statistic.reports for snapshot in snapshots),
        "estimates": len(estimates),
        "differing": sum(record.alarm is not None and record.alarm.differs for record in estimates),
    }


def estimate_id(record: EstimateRecord) -> str:
    """The id of a published estimate: study, run, attribute, name, window, group and pane.

    The same id always comes with the same bytes, so a consumer can drop duplicates by id.
    """
    # The prefixes keep ids distinct, whatever the name of a group is.
    group = "" if record.group is None else f"/group/{record.group}"
    rest = "/rest" if record.other_groups else ""
    return (
        f"{record.study}/{record.run}/{record.attribute}/{record.name}/{record.window_start}/"
        f"{record.window_end}{group}{rest}/{record.pane_index}"
    )


class Publish(beam.DoFn):
    """Publish estimates as JSON to a Pub/Sub topic, each with its id in the message attribute ``id``.

    Args:
        topic: its full name, as ``projects/P/topics/T``.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self._publisher: Any
        self._refusal: type[Exception]
        self._sent: list[Any]

    def setup(self) -> None:
        """Connect to the server in ``PUBSUB_EMULATOR_HOST``, or Google's."""
        from google.api_core.exceptions import GoogleAPIError
        from google.cloud import pubsub_v1

        self._refusal = GoogleAPIError
        self._publisher = pubsub_v1.PublisherClient()

    def start_bundle(self) -> None:
        """Start with no messages in flight."""
        self._sent = []

    def process(self, record: EstimateRecord) -> None:
        """Begin to publish an estimate."""
        attributes = {"content-type": "application/json", "id": estimate_id(record)}
        message = json.dumps(json_fields(record)).encode()
        self._sent.append(self._publisher.publish(self.topic, message, **attributes))

    def finish_bundle(self) -> None:
        """Wait until the server has every estimate; after a failure the engine retries the bundle.

        Raises:
            OSError: if it does not have them all.
        """
        for future in self._sent:
            try:
                future.result(timeout=PATIENCE)
            except TimeoutError:
                raise OSError(f"{self.topic}: no answer for {PATIENCE:.0f} seconds") from None
            except self._refusal as error:
                raise OSError(f"{self.topic}: {getattr(error, 'message', None) or error}") from None
