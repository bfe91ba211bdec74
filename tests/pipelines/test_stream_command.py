"""``ldpbeam stream`` up to its engine, which does nothing here; what is refused: test_refusals."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.command_line import checks as options
from ldpbeam.pipelines.commands import stream as stream_command
from ldpbeam.pipelines.graphs.stream import StreamJob
from ldpbeam.pipelines.sources.on_engines import pubsub
from ldpbeam.pipelines.sources.on_engines.opening import Run
from ldpbeam.runners import engines
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.sources.reading import ReadingOptions

SUBSCRIPTION, TOPIC = "projects/ldp-test/subscriptions/reports", "projects/ldp-test/topics/reports"
NO_TOPIC = "projects/ldp-test/topics/elsewhere"


class Streaming:
    """``ldpbeam stream`` in a folder of its own.

    Attributes:
        jobs: what the engine was given to run.
        during: called while the engine would run.
    """

    def __init__(self, folder: Path, study: str, command: Callable[..., Any]) -> None:
        self._command = command
        self.jobs: list[StreamJob] = []
        self.during: Callable[[], object] = lambda: None
        self.output, self.study, self.prism = (folder / name for name in ("out", "study.yaml", "prism"))
        self.study.write_text(study)
        self.prism.write_text("#!/bin/sh\necho '  -job_port int' >&2\necho '  -job_socket string' >&2\n")
        self.prism.chmod(0o755)

    def run(self, *options: object, study: object = None, prism: bool = True) -> Any:
        located = ("--prism-location", self.prism) if prism else ()
        return self._command(
            "stream", "--study", study or self.study, "--output", self.output, *located, *options
        )

    def pretend(self, pipeline: Any, job: StreamJob, here: bool, watch: Any) -> None:
        self.jobs.append(job)
        self.during()

    @property
    def runs_folder(self) -> Path:
        """The folder of the first run."""
        return self.output / "runs" / self.jobs[0].run


@pytest.fixture
def streaming(
    tmp_path: Path, small_text: str, command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> Streaming:
    made = Streaming(tmp_path, small_text + "windows: {size: 1h}\n", command)
    monkeypatch.setattr(stream_command, "run_until_stopped", made.pretend)
    monkeypatch.delenv("PUBSUB_EMULATOR_HOST", raising=False)
    return made


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The tests' own Pub/Sub server, with the topic and its subscription."""
    pubsub_v1 = pytest.importorskip("google.cloud.pubsub_v1", reason="google-cloud-pubsub is not installed")
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "integration")
    from pubsub_server import PubSubServer

    with PubSubServer() as server:
        monkeypatch.setenv("PUBSUB_EMULATOR_HOST", server.address)
        publisher, subscriber = pubsub_v1.PublisherClient(), pubsub_v1.SubscriberClient()
        with contextlib.closing(publisher.transport), contextlib.closing(subscriber.transport):
            publisher.create_topic(name=TOPIC)
            subscriber.create_subscription(name=SUBSCRIPTION, topic=TOPIC)
        yield server


def test_files_start(streaming: Streaming) -> None:
    renamed = ("--column", "user_id=uid", "--column", "payload=blob")
    ran = streaming.run("--input", "in/*", "--stop-when-idle", "5s", "--max_disorder", "30s", *renamed)
    assert (ran.code, ran.err) == (0, "")
    (job,) = streaming.jobs
    assert job.feed.columns.renamed == (("user_id", "uid"), ("payload", "blob"))
    assert (job.feed.name, job.reading, job.native) == ("in/*", ReadingOptions(30_000, 5000), False)
    assert ran.out.startswith(f"run {job.run}: reading in/*; stop with Ctrl-C\n")


def test_a_subscription_starts(streaming: Streaming, server: Any) -> None:
    ran = streaming.run("--subscription", SUBSCRIPTION, "--publish-to", TOPIC)
    assert (ran.code, ran.err) == (0, "")
    assert f"reading {SUBSCRIPTION} at {server.address}; stop with Ctrl-C\n" in ran.out


def test_a_study_may_be_on_any_file_system(streaming: Streaming, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "open_raw", lambda path: streaming.study.open("rb"))
    assert streaming.run("--input", "in/*", study="gs://bucket/study.yaml").code == 0
    assert [job.study.name for job in streaming.jobs] == ["small"]


@pytest.mark.parametrize("fails", [False, True])
def test_a_topic_has_a_subscription_of_its_own_while_the_run_lasts(
    fails: bool, server: Any, tmp_path: Path
) -> None:
    with (
        pytest.raises(ZeroDivisionError) if fails else contextlib.nullcontext(),
        pubsub.open_topic(TOPIC, Run(Columns(), str(tmp_path), "run")) as opened,
    ):
        assert set(server._subscriptions) == {SUBSCRIPTION, opened.feed.name}
        if fails:
            raise ZeroDivisionError
    assert set(server._subscriptions) == {SUBSCRIPTION}


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        (("--subscription", f"{SUBSCRIPTION}-2"), f"{SUBSCRIPTION}-2"),
        (("--topic", NO_TOPIC), NO_TOPIC),
        (("--input", "in/*", "--publish-to", NO_TOPIC), NO_TOPIC),
    ],
)
def test_what_is_not_on_the_server_is_named(
    given: Sequence[str], missing: str, streaming: Streaming, server: Any
) -> None:
    ran = streaming.run(*given)
    said = f"the server at {server.address} (PUBSUB_EMULATOR_HOST): {missing} does not exist"
    assert (ran.code, ran.err) == (2, f"ldpbeam: {said}\n")


@pytest.mark.parametrize("runner", ["direct", "prism"])
@pytest.mark.parametrize("given", [("--input", "in/*"), ("--subscription", SUBSCRIPTION)])
def test_without_prism_a_local_stream_is_refused_with_how_to_get_one(
    given: tuple[str, str], runner: str, streaming: Streaming, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines.prism, "get", lambda location, **_: None)
    ran = streaming.run(*given, "--runner", runner, prism=False)
    assert (ran.code, streaming.jobs) == (2, [])
    (refused,) = ran.err.splitlines()
    assert refused.startswith(
        f"ldpbeam: --runner {runner}: Prism, Beam's local engine of streams, is not here"
    )
    assert all(way in refused for way in ("install Go", "make prism-wheel", "--allow-open-ports"))
    assert not streaming.output.exists()


def test_open_doors_are_said_where_they_are_allowed(streaming: Streaming) -> None:
    streaming.prism.write_text("#!/bin/sh\necho '  -job_port int' >&2\n")
    ran = streaming.run("--input", "in/*", "--allow-open-ports")
    assert ran.code == 0
    assert ran.err.startswith(f"ldpbeam: {streaming.prism} is Prism as Beam releases it, which listens on")


@pytest.mark.parametrize("name", ["files.json", "journal-0.json"])
def test_what_an_earlier_run_left_is_damaged(name: str, streaming: Streaming) -> None:
    assert streaming.run("--input", "in/*").code == 0
    (streaming.runs_folder / name).write_text("{")
    ran = streaming.run("--input", "in/*")
    assert (ran.code, len(streaming.jobs)) == (2, 1)
    assert ran.err.startswith(f"ldpbeam: --output {streaming.output}: ")


def test_what_an_earlier_run_left_open_is_said(streaming: Streaming) -> None:
    assert streaming.run("--input", "in/*").code == 0
    windows = [["x", hour * 3_600_000, (hour + 1) * 3_600_000] for hour in (1, 3)]
    journal = json.dumps({"stopped_at": None, "windows": windows})
    (streaming.runs_folder / "journal-0.json").write_text(journal)
    ran = streaming.run("--input", "in/*")
    assert ran.code == 0
    assert ran.err.splitlines()[0] == (
        "ldpbeam: earlier runs ended with 2 open windows, from 1970-01-01T01:00:00Z to 1970-01-01T04:00:00Z: "
        "this run marks their estimates as incomplete"
    )
    assert {window.start for window in streaming.jobs[1].incomplete.windows} == {3_600_000, 3 * 3_600_000}


def test_damaged_files_are_said_at_the_end(streaming: Streaming) -> None:
    def count() -> None:
        names = ("in", "used", "duplicates", "late", "out_of_range", "dead_letters")
        counts = {**dict.fromkeys(names, 0), "damaged_files": 2, "dead_letters_by_reason": {}}
        (streaming.runs_folder / "accounting.json").write_text(json.dumps(counts))

    streaming.during = count
    ran = streaming.run("--input", "in/*")
    assert ran.code == 3
    for printed in (ran.out, ran.err):
        assert "2 files are damaged: how many reports they lost is not known" in printed
