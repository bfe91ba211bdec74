"""One seed: a stream is killed again and again until it ends, and then the judge looks at what it left."""

from __future__ import annotations

import errno
import json
import random
import shutil
import tempfile
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ldpbeam.fit.spending import Spending
from ldpbeam.pipelines.spool import run as run_module
from ldpbeam.pipelines.spool.finish import Finished, Finishing, Pane
from ldpbeam.pipelines.spool.manifest import Manifest, read_manifest
from ldpbeam.pipelines.spool.run import Run, Spool
from ldpbeam.schemas.outputs.dead_letters import read_dead_letters
from ldpbeam.schemas.outputs.snapshots import read_snapshots
from ldpbeam.transforms import storage
from ldpbeam.transforms.reports.counts import FATES
from simulation.disk import KilledError, UnsafeDisk
from simulation.feeds import Log, Server, Subscription, Time
from simulation.model import Place, came_in_time, histograms, kept, windows_of
from simulation.world import world_of

RUN = "20260101T000000Z-aaaaaaaa"
#: A process makes so many steps on the disk at most before it is killed.
STEPS = 120


class Clock:
    """The time as a run sees it."""

    def __init__(self, time: Time) -> None:
        self._time = time

    def elapsed(self) -> int:
        """Milliseconds since the process began."""
        return self._time.elapsed()

    def now(self) -> int:
        """The machine's date."""
        return self._time.clock()


@dataclass
class Later:
    """Finishes panes in this process, some time after they are begun; a solver may die and do it again."""

    how: Finishing
    chance: random.Random
    met: Counter[str]
    published: dict[str, str]
    waiting: deque[Pane] = field(default_factory=deque)

    @property
    def panes(self) -> int:
        """How many panes are not finished."""
        return len(self.waiting)

    def begin(self, pane: Pane) -> None:
        """Finish it later."""
        self.waiting.append(pane)

    def finished(self) -> Iterator[tuple[Pane, Finished | None]]:
        """Some of the panes, in their order."""
        for _ in range(self.chance.randrange(3)):
            if not self.waiting:
                return
            if self.chance.random() < 0.1:
                self.met["a solver died"] += 1
                self.how.finish(self.waiting[0])
            done = self.how.finish(self.waiting[0])
            yield self.waiting.popleft(), done

    def publish(self, records: Any) -> None:
        """An id never has two contents."""
        for record in records:
            from ldpbeam.schemas.outputs.estimates import json_fields
            from ldpbeam.transforms.outputs.panes import estimate_id

            text = json.dumps(json_fields(record))
            assert self.published.setdefault(estimate_id(record), text) == text, estimate_id(record)


@dataclass
class Day:
    """A seed, and the folder into which its stream writes."""

    seed: int
    met: Counter[str]
    folder: Path

    def through(self) -> None:
        """Run the stream to its end, and judge it.

        Raises:
            AssertionError: if it does not say what the judge says.
        """
        self.world = world_of(self.seed)
        self.chance = random.Random(f"faults of {self.seed}")
        self.met.update(self.world.features)
        self.time = Time(self.world.messages[0].published)
        self.disk = UnsafeDisk(self.chance, self.met)
        self.server, self.published = Server(), dict[str, str]()
        self.past: list[Manifest] = []
        before, storage.disk = storage.disk, self.disk
        try:
            for process in range(400):
                if self._process(last=process >= 12):
                    break
            else:
                raise AssertionError("it made no progress")
        finally:
            storage.disk = before
        self._judge()

    @property
    def _spool(self) -> Path:
        return self.folder / "runs" / RUN / "spool"

    def _process(self, *, last: bool) -> bool:
        """A process; whether it came to the end."""
        world, chance = self.world, self.chance
        self.time.began = self.time.now
        study = world.study.fingerprint
        manifest = read_manifest(str(self._spool), study) or Manifest(study)
        if manifest.ended is not None:
            return True
        feed = (
            Log(world, self.time, chance, manifest.position)
            if world.takes_once
            else Subscription(world, self.time, chance, manifest.position, self.server, self.met)
        )
        assert world.study.windows is not None
        spending = Spending(0, 0, 0, world.study.windows.cells(world.period), 1)
        how = Finishing(world.study, str(self.folder), RUN, str(self._spool), spending)
        later = Later(how, chance, self.met, self.published)
        how.__dict__["_publisher"] = later.publish
        self.disk.loses = chance.random() < 0.5
        self.disk.ends_after = None if last or chance.random() < 0.1 else chance.randrange(STEPS)
        self.time.skew = chance.choice([0, 0, 0, 3_600_000, -3_600_000])
        try:
            run = Run(
                Spool(world.study, RUN, str(self._spool), str(self.folder / "letters"), world.disorder,
                      takes_once=world.takes_once),
                manifest, feed, later, Clock(self.time),
            )  # fmt: skip
            self._watch(manifest)
            while not feed.at_the_end:
                if chance.random() < 0.01 and not last:
                    self.met["killed between two turns"] += 1
                    return False
                self.disk.full = not last and chance.random() < 0.01
                if not run.turn():
                    self.time.now += chance.randrange(1, 3_000)
                self._watch(run.manifest)
            self.disk.full = False
            run.end_windows()
            run.commit()
            while run.unsolved:
                run.settle()
            run.commit(ended=1)
            self._watch(run.manifest)
            self.run = run
            return True
        except KilledError:
            return False
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return False
        finally:
            self.disk.full, self.disk.ends_after = False, None
            self.disk.crash()

    def _watch(self, manifest: Manifest) -> None:
        """What must hold of each manifest, and of those before it."""
        if self.past and manifest.number == self.past[-1].number:
            return
        counts = manifest.counts
        waiting = manifest.in_open_windows
        assert counts.get("in", 0) == sum(counts.get(fate, 0) for fate in FATES) + waiting, (counts, waiting)
        if self.past and manifest.watermark is not None and self.past[-1].watermark is not None:
            assert manifest.watermark >= self.past[-1].watermark, "the watermark went back"
        if waiting:
            self.met["reports waited at a commit"] += 1
        if manifest.unsolved:
            self.met["panes were unsolved at a commit"] += 1
        if len(manifest.segments) > 1:
            self.met["several segments"] += 1
        self.past.append(manifest)

    def _judge(self) -> None:
        world = self.world
        snapshots: dict[tuple[int, int], list[Any]] = {}
        longer = 0
        for path in sorted((self.folder / "statistics").glob("*.avro")):
            for one in read_snapshots(path.open("rb")):
                if one.joined:
                    longer += 1
                    continue
                snapshots.setdefault(one.window, []).append(one)
        counts = read_manifest(str(self._spool), world.study.fingerprint).counts  # type: ignore[union-attr]
        sure = came_in_time(world, self.time.now, ())
        late = [
            (message.number, row)
            for message in world.messages
            for row, report in enumerate(message.reports)
            if report.late and not report.broken
        ]
        sent = [report for message in world.messages for report in message.reports]
        assert counts["in"] == len(sent)
        assert counts.get("dead_letters", 0) == sum(report.broken for report in sent)
        letters = [
            letter
            for path in (self.folder / "letters").glob("*.avro")
            for letter in read_dead_letters(path.open("rb"))
        ]
        assert len(letters) == sum(report.broken for report in sent)
        if counts.get("late"):
            self.met["a report was late"] += 1
        taken_late = self._taken_late(sure, late, snapshots, counts)
        in_time = came_in_time(world, self.time.now, taken_late)
        for window in {window for report in in_time.values() for window in windows_of(world, report.time)}:
            expected = histograms(kept(world, in_time, window))
            ours = self._histograms(snapshots.get(window, []))
            if not any(counts for counts in expected.values()):
                continue
            assert ours == expected, (window, ours, expected)
        if longer:
            self.met["longer windows were joined"] += 1
        if any(one.pane_index for of in snapshots.values() for one in of):
            self.met["a window had several panes"] += 1

    def _taken_late(
        self, sure: dict[Place, Any], late: list[Place], snapshots: Any, counts: Any
    ) -> set[Place]:
        """The reports that may be late and were not: by the counts, all or none where it is not told."""
        if not late:
            return set()
        number = counts.get("late", 0)
        if number == 0:
            return set(late)
        if number == len(late):
            return set()
        self.met["some of the late were taken"] += 1
        reports = {
            (message.number, row): report
            for message in self.world.messages
            for row, report in enumerate(message.reports)
        }
        # A report was taken in time if its window has one more of its payload than without it.
        taken: set[Place] = set()
        for place in late:
            report = reports[place]
            for window in windows_of(self.world, report.time)[:1]:
                ours = self._histograms(snapshots.get(window, [])).get(report.service, Counter())
                trial = came_in_time(self.world, self.time.now, taken)
                without = histograms(kept(self.world, trial, window)).get(report.service, Counter())
                if ours[report.payload] > without[report.payload]:
                    taken.add(place)
        return taken

    def _histograms(self, snapshots: list[Any]) -> dict[str, Counter[int]]:
        totals: dict[str, Counter[int]] = {}
        for one in snapshots:
            for service, histogram in zip(self.world.services, one.statistic.histograms, strict=True):
                found = Counter({code: int(count) for code, count in enumerate(histogram) if count})
                if found:
                    totals.setdefault(service, Counter()).update(found)
        return totals


def simulate(seed: int, met: Counter[str]) -> None:
    """Run a seed in a folder of its own.

    Raises:
        AssertionError: if the stream does not say what the judge says.
    """
    folder = Path(tempfile.mkdtemp(prefix="simulated-"))
    commit, fire = run_module.COMMIT_MILLISECONDS, run_module.FIRE_MILLISECONDS
    run_module.COMMIT_MILLISECONDS = 2_000
    try:
        Day(seed, met, folder).through()
    finally:
        run_module.COMMIT_MILLISECONDS, run_module.FIRE_MILLISECONDS = commit, fire
        shutil.rmtree(folder, ignore_errors=True)
