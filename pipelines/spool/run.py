"""The run of a stream on one machine: one loop, which polls, admits, fires, commits and acknowledges.

A turn takes what a feed has decoded, checks it, judges it by the watermark, and lets it wait for its windows.
Windows that the watermark has passed fire: their panes are folded from the reports that wait. A *commit*
makes all of that durable, in this order:

1. dead letters and rows of the ledger, in files of their own,
2. the reports that are not on disk, in a segment, and the panes that fired,
3. the manifest, which names them,
4. the feed acknowledges what the manifest has,
5. files that no manifest names are deleted, and panes that fired are finished.

So nothing is acknowledged that is not on disk, nobody sees a pane that another process would not fire again,
and a process that is killed anywhere has done nothing since its last commit.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import pyarrow as pa

from ldpbeam.errors import UserError
from ldpbeam.folders.output import names_in
from ldpbeam.pipelines.spool.finish import Finished, Pane
from ldpbeam.pipelines.spool.manifest import Manifest, write_manifest
from ldpbeam.pipelines.spool.open_windows import Key, OpenWindows
from ldpbeam.pipelines.spool.place import StreamOutput
from ldpbeam.schemas.outputs.snapshots import EARLY, Snapshot
from ldpbeam.study import attribute_of
from ldpbeam.transforms.joining.hidden_ids import hidden
from ldpbeam.transforms.outputs.ledger_parts import write_part
from ldpbeam.transforms.outputs.letter_files import number_of, order_of, write_letters
from ldpbeam.transforms.outputs.snapshots import snapshot_file
from ldpbeam.transforms.reports.batches import WATERMARK
from ldpbeam.transforms.reports.counts import DAMAGED, IN, NOT_BEGUN, OUT_OF_RANGE, refused_payloads
from ldpbeam.transforms.reports.dead_letters import PLAIN, Disclosure, counts_of, disclosed, in_columns
from ldpbeam.transforms.reports.validation import Validation
from ldpbeam.transforms.segments import Stored, delete_others, write_panes, write_reports
from ldpbeam.transforms.sources.feeds import Clock, FeedBatch, OpenFeed
from ldpbeam.transforms.sources.lag import Lag
from ldpbeam.transforms.sources.watermarks import Watermarks
from ldpbeam.transforms.storage import delete, join
from ldpbeam.windows import FAR, Span, times_of

#: Milliseconds between two commits at most, while anything has changed.
COMMIT_MILLISECONDS = 5_000
#: The run commits at once when this many bytes of reports, dead letters, or bytes of dead letters wait.
REPORT_BYTES, LETTERS, LETTER_BYTES = 2**26, 10_000, 2**23
#: Milliseconds between two looks at the watermark, and between two looks for windows that fire.
LOOK_MILLISECONDS, FIRE_MILLISECONDS = 50, 100
#: At most this many panes wait to be finished; windows fire again when half of them are. Those with the most
#: reports fire first, so that none waits behind many that somebody invented.
FIRED_AT_ONCE = 64
#: Beyond this many segments, the smaller half is merged.
SEGMENTS = 64
#: Reports of windows that are over leave the disk within this time, or when they are half of a segment.
LEFT_MILLISECONDS = 60_000


class Finisher(Protocol):
    """What finishes panes beside the loop: ``Solving``, and in simulations another."""

    def begin(self, pane: Pane) -> None:
        """Finish a pane after all that were begun before."""

    def finished(self) -> Iterator[tuple[Pane, Finished | None]]:
        """The panes that are finished since the last call, in their order; None for one that is left out."""


class Segment(NamedTuple):
    """A segment that a manifest names.

    Attributes:
        rows: how many reports it had when it was written.
        over: since when some of them wait for no window, on the clock that never goes back; None if all wait.
    """

    rows: int
    over: int | None = None


@dataclass
class Seen:
    """What the run says of itself: sums since the process began."""

    panes: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    differing: int = 0
    tests: int = 0
    flagged: int = 0


class Run:
    """A run that reads.

    Args:
        output: the run, and its folders; the study has windows.
        manifest: the last one; that of a new run has no number.
        feed: an open feed, at the position of the manifest.
        finisher: what finishes panes.
        clock: the time.
        say: is given what the loop learns of each pane that is finished.
        disorder: how many milliseconds out of order reports arrive at most.
        disclosure: what outputs may reveal about inputs, with the HMAC key for user ids.
    """

    def __init__(
        self,
        output: StreamOutput,
        manifest: Manifest,
        feed: OpenFeed,
        finisher: Finisher,
        clock: Clock,
        say: Callable[[Finished], None] = lambda _: None,
        *,
        disorder: int,
        disclosure: Disclosure = PLAIN,
    ) -> None:
        self.output, self.feed, self.clock = output, feed, clock
        self._disclosure, self._keeping = disclosure, output.keeping
        self.seen = Seen()
        self.windows = OpenWindows(output.study, output.spool)
        self.manifest = manifest
        self._finisher, self._say = finisher, say
        self._key = bytes.fromhex(manifest.key) if manifest.key else secrets.token_bytes(16)
        self._validation = Validation(output.study, disclosure=disclosure, ledger_key=output.ledger_key)
        self.counts: Counter[str] = Counter(manifest.counts)
        self.windows.counts = self.counts
        if manifest.windows:
            self.windows.restore(manifest.windows)
        now = clock.elapsed()
        #: The clock of this process has no past, so what was over before counts as over since now.
        self._segments = {
            number: Segment(rows, None if over is None else now) for number, rows, over in manifest.segments
        }
        self.marks = Watermarks(disorder, now, manifest.watermark, manifest.clock)
        self._unsolved = [
            Pane(attribute, start, end, pane_index, Stored(*stored), *refused)
            for attribute, start, end, pane_index, stored, *refused in manifest.unsolved
        ]
        self._missing = list(manifest.missing)
        self._incomplete_before = manifest.incomplete_before
        #: When the feed last found messages removed; and until when the windows last that this run has ended.
        self._lost_at: int | None = None
        self._ended_until = -FAR
        self._letters: list[pa.RecordBatch] = []
        self._letter_files, self._letter_size = manifest.letter_files, 0
        self._received: list[pa.RecordBatch] = []
        self._fired: list[list[Snapshot]] = []
        self._fresh_bytes = 0
        #: Whether anything has changed since the last commit.
        self.changed = False
        self._first = True
        self._began = self._committed_at = self._looked_at = self._fired_at = now
        self.turned_at = now
        #: The watermark; None before there is one.
        self.reached = manifest.watermark
        #: Whether messages were lost since the process began.
        self.lost = False
        #: Whether the run was asked to stop.
        self.stopping = False
        for pane in self._unsolved:
            finisher.begin(pane)

    # ------------------------------------------------------------------------------------------------- a turn

    def turn(self) -> bool:
        """Do what there is to do now; whether the feed had something, or a commit was made.

        Raises:
            UserError: if the feed failed for good.
            OSError: if the disk does not take a commit.
        """
        now = self.turned_at = self.clock.elapsed()
        try:
            batch = self.feed.take()
        except OSError as error:
            raise UserError(f"{error}; what was read is kept: run the same command to continue") from None
        if batch is not None:
            self._admit(batch)
        state = self.feed.state
        self._note_loss(state.lost)
        if now - self._looked_at >= LOOK_MILLISECONDS:
            self._looked_at = now
            self.marks.look(now, state.silences)
        if now - self._fired_at >= FIRE_MILLISECONDS:
            self._fired_at = now
            self.settle()
            reached = self.reached = self.marks.at()
            if reached is not None:
                room = FIRED_AT_ONCE - self.unsolved
                if room >= FIRED_AT_ONCE // 2:
                    solving = {(attribute_of(own.attribute), (own.start, own.end)) for own in self._unsolved}
                    self._fire(self.windows.due(reached, self._clocks[1], solving, room))
                self.windows.forget(reached)
        if self._wants_commit(now):
            self.commit()
            return True
        return batch is not None

    @property
    def _clocks(self) -> tuple[int, int]:
        """The clocks of this machine and of the server, the earlier one first: one may be wrong."""
        here, server = self.clock.now(), self.marks.clock(self.clock.elapsed())
        server = here if server is None else server
        return min(here, server), max(here, server)

    def _note_loss(self, at: int | None) -> None:
        if at not in (None, self._lost_at):
            self._lost_at = at
            self.lose(at)

    def lose(self, at: int = -FAR) -> None:
        """Messages are gone that were not read: all windows may lack reports that begin before now.

        Args:
            at: when that was found, by the clock of the feed.
        """
        self._incomplete_before = max(at, self._clocks[1], self._incomplete_before or at)
        self.lost = self.changed = True

    def _wants_commit(self, now: int) -> bool:
        if not self.changed:
            return False
        full = self._fresh_bytes >= REPORT_BYTES or self._letter_size >= LETTER_BYTES
        many = sum(batch.num_rows for batch in self._letters) >= LETTERS
        # Soon at first: a process that is killed again and again has kept about half of what it did.
        due = now - self._committed_at >= min(COMMIT_MILLISECONDS, self._committed_at - self._began)
        return bool(self._fired) or full or many or due or self.feed.wants_commit

    @property
    def lag(self) -> Lag | None:
        """How far the feed is behind its server; None before anything is known."""
        lag = self.feed.state.lag
        if lag is not None:
            return lag
        behind = self.marks.behind(self.clock.elapsed(), self.clock.now())
        return None if behind is None else Lag(behind)

    @property
    def idle(self) -> int:
        """For how many milliseconds nothing is known to have arrived."""
        return self.marks.idle

    # --------------------------------------------------------------------------------------------- admission

    def _admit(self, batch: FeedBatch) -> None:
        self.changed = True
        reached = self.marks.at()
        self.marks.take(
            batch.partition, self.clock.elapsed(), batch.event_times, batch.oldest, batch.published
        )
        self.counts[IN] += sum(letter.reports for letter in batch.letters)
        self.counts.update({DAMAGED + path: 1 for path in batch.damaged if not self.counts[DAMAGED + path]})
        self._refuse(in_columns(batch.letters, self._disclosure))
        earliest, latest = map(self.windows.bounds.plausible, self._clocks)
        plausible = Span(earliest.start, latest.stop)
        for decoded in batch.batches:
            self.counts[IN] += decoded.num_rows
            metadata = dict(decoded.schema.metadata or {})
            if reached is not None:
                metadata[WATERMARK] = str(reached).encode()
            for validated in self._validation.in_parts(decoded.replace_schema_metadata(metadata)):
                self.counts.update(validated.counts)
                self._refuse(validated.letters)
                self._received += validated.received
                for reports in validated.reports:
                    outside = plausible.outside(reports.column("event_time").to_numpy())
                    if outside.any():
                        self.counts[OUT_OF_RANGE] += int(outside.sum())
                        reports = reports.filter(pa.array(~outside))
                    if reports.num_rows:
                        self._fresh_bytes += reports.nbytes
                        self.windows.add(hidden(reports, self._key))
        self.windows.file(reached)

    def _refuse(self, letters: Iterable[pa.RecordBatch]) -> None:
        for batch in letters:
            shown = disclosed(batch, self._disclosure)
            self._letters.append(shown)
            self._letter_size += shown.nbytes
            self.counts.update(counts_of(batch))

    # ------------------------------------------------------------------------------------------------- panes

    def _fire(self, due: Iterable[tuple[Key, str]]) -> None:
        for key, timing in due:
            lacks = key in self.windows.gave_way or key[1][0] < (self._incomplete_before or -FAR)
            self._fired += self.windows.fire(key, timing, complete=timing != EARLY and not lacks)
            self.changed = True

    def end_windows(self, *, drained: bool = False) -> None:
        """Let all windows fire that have begun, because no more reports come.

        Args:
            drained: whether more reports would have come, so that windows which have not ended are
                incomplete.
        """
        reached, now = self.marks.at(), self._clocks[1]
        for key, timing in self.windows.unfired():
            if key[1][0] > now:
                panes = self.windows.fire(key, timing, complete=False)
                used = sum(each.statistic.reports for pane in panes for each in pane)
                self.counts[NOT_BEGUN] += 0 if self.output.study.is_pair(key[0]) else used
            else:
                is_open = drained and (reached is None or key[1][1] > reached)
                self._fire([(key, EARLY if is_open else timing)])
                self._ended_until = max(self._ended_until, key[1][1])
        self.changed = True

    def settle(self) -> None:
        """Take the panes that are finished off the list of the next manifest."""
        for pane, finished in self._finisher.finished():
            self._unsolved.remove(pane)
            self.changed = True
            if finished is None:
                self._missing.append(f"{pane.attribute} {times_of((pane.start, pane.end))}")
                continue
            self.counts.update(finished.counts)
            seen = self.seen
            seen.panes, seen.seconds = seen.panes + 1, seen.seconds + finished.seconds
            seen.longest = max(seen.longest, finished.seconds)
            seen.differing += finished.differing
            seen.tests += finished.tests
            seen.flagged += len(finished.warnings)
            self._say(finished)

    @property
    def unsolved(self) -> int:
        """How many panes have fired and are not finished."""
        return len(self._unsolved)

    # ------------------------------------------------------------------------------------------------- commit

    def commit(self, *, ended: int | None = None) -> None:
        """Make everything durable, and acknowledge it.

        Args:
            ended: the clock, if the run ends with this commit. Its windows are forgotten then; what the next
                run has of them is incomplete.

        Raises:
            OSError: if the disk does not take it; nothing is acknowledged then.
        """
        if ended is not None:
            self.windows.forget_all()
            until = max(self._ended_until, self.marks.at() or -FAR, self._incomplete_before or -FAR)
            self._incomplete_before = None if until == -FAR else until
        number, now = self.manifest.number + 1, self.clock.elapsed()
        self._write_letters()
        if self._keeping is not None and self._received:
            write_part(self._keeping.folder, self._keeping.about, self._received)
        self.windows.waiting.look_through()
        self._rewrite(now)
        fresh = list(self.windows.waiting.fresh())
        if fresh:
            parts = write_reports(self.output.spool, number, [batch for _, batch in fresh])
            self.windows.waiting.filed(fresh, parts)
            self._segments[number] = Segment(sum(part.rows for part in parts))
        panes = self._panes(number)
        self._unsolved += panes
        live = self.windows.waiting.live_rows()
        self._segments = {
            each: Segment(segment.rows, _over(segment, live[each], now))
            for each, segment in self._segments.items()
            if live[each]
        }
        position = self.feed.position()
        # A manifest that passes over messages says so.
        self._note_loss(self.feed.state.lost)
        self.manifest = Manifest(
            study=self.output.study.fingerprint,
            number=number,
            position=position,
            watermark=self.marks.at(),
            clock=self.marks.clock(now),
            counts={**+self.counts},
            in_open_windows=self.windows.reports,
            letter_files=self._letter_files,
            unsolved=[list(pane) for pane in self._unsolved],
            missing=self._missing,
            incomplete_before=self._incomplete_before,
            ended=ended,
            segments=[[each, *segment] for each, segment in self._segments.items()],
            key=self._key.hex(),
            windows=self.windows.to_json(),
        )
        write_manifest(self.output.spool, self.manifest)
        self.feed.commit()
        delete_others(self.output.spool, self._segments, {pane.stored.segment for pane in self._unsolved})
        for pane in panes:
            self._finisher.begin(pane)
        self._letters, self._letter_size, self._received, self._fired = [], 0, [], []
        self._fresh_bytes, self.changed, self._first = 0, False, False
        self._committed_at = now

    def _write_letters(self) -> None:
        """Write the dead letters; those that a killed process wrote and did not commit are deleted first."""
        if self._first:
            names = names_in(self.output.letters, "part-*.avro")
            delete(
                [join(self.output.letters, name) for name in names if number_of(name) >= self._letter_files]
            )
        if self._letters:
            write_letters(self.output.letters, self._letter_files, sorted(self._letters, key=order_of))
            self._letter_files += 1

    def _panes(self, number: int) -> list[Pane]:
        """Write the panes that fired, and say where they lie."""
        if not self._fired:
            return []
        output = self.output
        panes = [snapshot_file(output.study, output.run, pane) for pane in self._fired]
        stored = write_panes(output.spool, number, panes)
        firsts = [pane[0] for pane in self._fired]
        refused = refused_payloads(self.counts)
        return [
            Pane(first.attribute, *(first.window or (0, 0)), first.pane_index, place, refused)
            for first, place in zip(firsts, stored, strict=True)
        ]

    def _rewrite(self, now: int) -> None:
        """Let the reports of some segments be written anew, so that the disk loses those that are over."""
        live = self.windows.waiting.live_rows()
        old = {
            number
            for number, segment in self._segments.items()
            if 0 < live[number] < segment.rows
            and (
                2 * live[number] <= segment.rows
                or (segment.over is not None and now - segment.over >= LEFT_MILLISECONDS)
            )
        }
        if len(self._segments) > SEGMENTS:
            old.update(sorted(self._segments, key=live.__getitem__)[: SEGMENTS // 2])
        if old:
            self.windows.waiting.take_from(old)


def _over(segment: Segment, live: int, now: int) -> int | None:
    """Since when some reports of a segment wait for no window."""
    if live == segment.rows:
        return None
    return now if segment.over is None else segment.over
