"""The stream pipeline: from a feed of reports to panes in files, published to a topic if asked."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

import apache_beam as beam

from ldpbeam.beam.judge_panes import JudgePane
from ldpbeam.beam.solve_windows import Solve
from ldpbeam.fit.spending import Spending
from ldpbeam.folders.output import DEAD_LETTERS, FIT_FOLDER, LEDGER_FOLDER, STATISTICS, Output
from ldpbeam.folders.written import snapshots_in
from ldpbeam.pipelines.estimates.pane_fit import PaneFit
from ldpbeam.pipelines.runs.ledger_folder import keeping
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study
from ldpbeam.times import milliseconds
from ldpbeam.transforms.outputs.accounting import WriteRunningAccounting
from ldpbeam.transforms.outputs.dead_letters import WriteStreamDeadLetters
from ldpbeam.transforms.outputs.ledger_parts import Keeping
from ldpbeam.transforms.outputs.names import snapshot_name
from ldpbeam.transforms.outputs.panes import Solved, WritePaneEstimates, WritePaneStatistics
from ldpbeam.transforms.reports.counts import COUNTS
from ldpbeam.transforms.reports.dead_letters import DEAD, PLAIN, Disclosure
from ldpbeam.transforms.sources.feeds import Feed
from ldpbeam.transforms.sources.native_pubsub import ReadNative
from ldpbeam.transforms.sources.reading import Reading, ReadingOptions
from ldpbeam.transforms.sources.replay import Replay
from ldpbeam.transforms.sources.source import ReadStream
from ldpbeam.transforms.state.files import run_folder
from ldpbeam.transforms.state.records import Incomplete
from ldpbeam.transforms.statistics import StreamStatistics
from ldpbeam.transforms.storage import exists, join
from ldpbeam.transforms.windows.panes import Earlier
from ldpbeam.transforms.windows.timers import Stop
from ldpbeam.windows import Bounds


@dataclass(frozen=True)
class StreamJob(Output):
    """What one run of a stream reads, keeps and writes.

    Attributes:
        reading: what the options say of how reports are read.
        shards: the number of shards of users; results do not depend on it.
        feed: where the reports come from; None before it is opened.
        native: whether Beam's own Pub/Sub transform reads, as on Dataflow.
        readers: how many readers pull, on engines with slots for several.
        stays: whether a finished reader stays open, for engines where this process ends the job.
        disclosure: what outputs may reveal about inputs, with the HMAC key for user ids.
        ledger_key: the key of the ledger over periods; None if the study has none.
        publish: publishes estimates; None if nobody wants it.
        incomplete: the windows that may lack reports.
        earlier_runs: the names of the runs of the stream before this one.
        replay: what an earlier process of this run left, if the next process can read the feed again.
    """

    reading: ReadingOptions
    shards: int
    feed: Feed | None = None
    native: bool = False
    readers: int = 1
    stays: bool = False
    disclosure: Disclosure = PLAIN
    ledger_key: bytes | None = field(default=None, repr=False)
    publish: beam.DoFn | None = None
    incomplete: Incomplete = field(default_factory=Incomplete)
    earlier_runs: tuple[str, ...] = ()
    replay: Replay | None = None

    @property
    def spending(self) -> Spending:
        """The limits of the run's tests of fit."""
        assert self.study.windows is not None
        started = begun_at(self.run)
        return Spending(
            since=min(map(begun_at, (*self.earlier_runs, self.run))),
            started=started,
            earlier_runs=len(self.earlier_runs),
            windows=self.study.windows.cells(self.study.windows.period),
            # Windows that are joined have the other half.
            attributes=len(self.study.estimated) * (2 if self.study.windows_joined > 1 else 1),
        )

    @property
    def keeping(self) -> Keeping | None:
        """Where workers write what users spent; None if the study has no ledger over periods."""
        return keeping(self, self.of_run(LEDGER_FOLDER), self.ledger_key)

    @property
    def folder(self) -> str:
        """The run's own folder."""
        return run_folder(self.output, self.run)

    def of_run(self, name: str) -> str:
        """A path below the run's own folder."""
        return join(self.folder, name)


def run_name(now: datetime) -> str:
    """A name for a run that begins now."""
    return f"{now:%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}"


def begun_at(run: str) -> int:
    """When a run began, in epoch milliseconds, from its name.

    Raises:
        ValueError: if :func:`run_name` did not make the name.
    """
    return milliseconds(run.partition("-")[0])


def build(pipeline: beam.Pipeline, job: StreamJob) -> None:
    """Add the stages of a stream to an empty pipeline.

    Args:
        pipeline: the pipeline; it is not run here.
        job: what the run reads and writes; its study has windows.
    """
    study = job.study
    assert study.windows is not None
    assert job.feed is not None
    stop = None
    if job.native:
        read = pipeline | "Read" >> ReadNative(job.feed, job.disclosure)
    else:
        reading = Reading(
            feed=job.feed,
            attributes=tuple(study.attributes),
            windows=study.windows,
            output=job.output,
            run=job.run,
            options=job.reading,
            readers=job.readers,
            stays=job.stays,
            replay=job.replay,
        )
        read = pipeline | "Read" >> ReadStream(reading, job.disclosure)
        # A stop ends all windows. It does not where readers stay, because a savepoint may hold windows, nor
        # with several readers, because the others go on when the first one stops.
        if job.readers == 1 and not job.stays:
            stop = Stop(job.output, job.run)
    again = job.replay is not None
    earlier = Earlier(partial(last_pane, study, job.output, job.run), job.incomplete) if again else None
    counted = read.decoded | "Statistics" >> StreamStatistics(
        study, job.shards, disclosure=job.disclosure, stop=stop, ledger=job.keeping, earlier=earlier
    )
    written = counted.snapshots | "WriteStatistics" >> beam.ParDo(
        WritePaneStatistics(study, job.output, job.run, job.incomplete, again=again)
    ).with_outputs(COUNTS, main="panes")
    _ = written.panes | "TestFit" >> beam.ParDo(PaneFit(study, job.of_run(FIT_FOLDER), job.spending))
    solved, unsolved = written.panes | "Estimate" >> Solve(study, (job.output, job.run), traced=again)
    judged = solved | "Judge" >> beam.ParDo(JudgePane(study, job.output, job.run)).with_output_types(Solved)
    estimates = judged | "WriteEstimates" >> beam.ParDo(WritePaneEstimates(study, job.output, job.run))
    if job.publish is not None:
        estimates = estimates | "Publish" >> beam.ParDo(job.publish)
    # These are no counts, but windows settle after they have been written and published.
    emitted = estimates | "Emitted" >> beam.FlatMap(lambda _: ()).with_output_types(tuple[str, int])
    letters = (read[DEAD], counted.dead_letters) | "WriteDeadLetters" >> WriteStreamDeadLetters(
        job.of_run(DEAD_LETTERS), continued=again
    )
    _ = (
        (read[COUNTS], counted.counts, written[COUNTS], unsolved, letters, emitted)
        | "Counts" >> beam.Flatten()
        | "WriteAccounting" >> WriteRunningAccounting(job.output, job.run, study.windows if again else None)
    )


def last_pane(study: Study, output: str, run: str, attribute: str, window: Bounds) -> list[Snapshot]:
    """The snapshots of the last pane of an attribute's window that a run has written; none if it has not."""
    path = join(output, STATISTICS, snapshot_name(study.name, attribute, window, run))
    return list(snapshots_in(path)) if exists(path) else []
