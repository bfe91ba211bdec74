"""One seed: a stream is killed again and again until it ends, and then the judge looks at what it left."""

from __future__ import annotations

import errno
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
from ldpbeam.pipelines.spool.place import StreamOutput
from ldpbeam.pipelines.spool.run import Run
from ldpbeam.transforms import storage
from ldpbeam.transforms.outputs.panes import estimate_id
from ldpbeam.transforms.reports.counts import FATES
from ldpbeam.transforms.sources.feeds import Clock
from simulation.disk import KilledError, UnsafeDisk
from simulation.feeds import Log, Server, Subscription, Time
from simulation.judge import Left, judge, text_of, without
from simulation.world import world_of

RUN = "20260101T000000Z-aaaaaaaa"
#: A process makes so many steps on the disk at most before it is killed.
STEPS = 120


@dataclass
class Later:
    """Finishes panes in this process, some time after they are begun; a solver may die and do it again."""

    how: Finishing
    chance: random.Random
    met: Counter[str]
    published: dict[str, str]
    waiting: deque[Pane] = field(default_factory=deque)

    def begin(self, pane: Pane) -> None:
        """Finish it later."""
        self.waiting.append(pane)

    def finished(self) -> Iterator[tuple[Pane, Finished | None]]:
        """Some of the panes, in their order."""
        for _ in range(self.chance.randrange(3)):
            if not self.waiting:
                return
            if self.chance.random() < 0.1:
                self.met["fault: a solver died"] += 1
                self.how.finish(self.waiting[0])
            done = self.how.finish(self.waiting[0])
            yield self.waiting.popleft(), done

    def publish(self, records: Any) -> None:
        """An id never has two contents."""
        for record in records:
            text = text_of(record)
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
        self.met.update(f"world: {feature}" for feature in self.world.features)
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
        manifest = read_manifest(str(self._spool), self.world.study.fingerprint)
        assert manifest is not None
        sent = without(self.world, set(manifest.position.get("lost", ())))
        judge(Left(self.folder, manifest, sent, self.world, self.time.now, self.published), self.met)

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
        kind = Log if world.takes_once else Subscription
        feed = kind(world, self.time, chance, manifest.position, self.server, self.met)
        assert world.study.windows is not None
        spending = Spending(0, 0, 0, world.study.windows.cells(world.period), 1)
        output = StreamOutput(world.study, str(self.folder), RUN)
        how = Finishing(output, spending)
        later = Later(how, chance, self.met, self.published)
        how.__dict__["_publisher"] = later.publish
        self.disk.loses = chance.random() < 0.5
        self.disk.ends_after = None if last or chance.random() < 0.1 else chance.randrange(STEPS)
        self.time.skew = self._skew()
        try:
            clock = Clock(self.time.elapsed, self.time.clock)
            run = Run(output, manifest, feed, later, clock, disorder=world.disorder)
            self._watch(manifest)
            while not feed.at_the_end:
                if chance.random() < 0.01 and not last:
                    self.met["fault: killed between two turns"] += 1
                    return False
                self._disturb(feed, last=last)
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
            if (read_manifest(str(self._spool), study) or manifest).number == manifest.number:
                self.met["state: a process ended before its first commit"] += 1
            if list(self._spool.glob("*.arrow")) and not (self._spool / "manifest.json").exists():
                self.met["state: a segment was there without a manifest"] += 1

    def _skew(self) -> int:
        return self.chance.choice([0, 0, 0, 3_600_000, -3_600_000])

    def _disturb(self, feed: Log | Subscription, *, last: bool) -> None:
        """Let something happen to the machine or to the server, now and then."""
        chance = self.chance
        self.disk.full = not last and chance.random() < 0.01
        if chance.random() < 0.01:
            self.met["fault: the clock was set"] += 1
            self.time.skew = self._skew()
        if chance.random() < 0.01:
            self.met["fault: the server was away"] += 1
            self.time.away_until = self.time.now + chance.randrange(10_000)
        if isinstance(feed, Log) and "retention" in self.world.features and chance.random() < 0.02:
            feed.remove()

    def _watch(self, manifest: Manifest) -> None:
        """What must hold of each manifest, and of those before it."""
        if self.past and manifest.number == self.past[-1].number:
            return
        counts = manifest.counts
        waiting = manifest.in_open_windows
        assert counts.get("in", 0) == sum(counts.get(fate, 0) for fate in FATES) + waiting, (counts, waiting)
        if self.past and manifest.watermark is not None and self.past[-1].watermark is not None:
            assert manifest.watermark >= self.past[-1].watermark, "the watermark went back"
        if manifest.number:
            self._note_states(manifest)
        self.past.append(manifest)

    def _note_states(self, manifest: Manifest) -> None:
        """Count the states that a run must come through at some seed."""
        segments = {each[0] for each in manifest.segments}
        waiting, windows = manifest.windows["waiting"], manifest.windows["windows"]
        states = {
            "reports waited at a commit": bool(manifest.in_open_windows),
            "panes were unsolved at a commit": bool(manifest.unsolved),
            "there were several segments": len(segments) > 1,
            "a window that had closed waited for late reports": any(window[4] for window in windows),
            "the reports of a window lay in several segments": any(
                len({part[0] for part in each[7]}) > 1 for each in waiting
            ),
            "a segment left the disk while others stayed": bool(
                self.past and segments and {each[0] for each in self.past[-1].segments} - segments
            ),
        }
        self.met.update(f"state: {name}" for name, reached in states.items() if reached)


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
