"""What a person gets wrong on the command line of a stream: a sentence, exit code 2, and nothing started."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.pipelines.commands import options
from ldpbeam.pipelines.commands import stream as stream_command
from ldpbeam.pipelines.graphs import engines
from ldpbeam.pipelines.graphs.stream import StreamJob
from ldpbeam.pipelines.runs import feed

WINDOWS = "windows: {size: 1h}\n"
SUBSCRIPTION, TOPIC = "projects/ldp-test/subscriptions/reports", "projects/ldp-test/topics/reports"
ELSEWHERE = {name: f"projects/ldp-test/{name}/elsewhere" for name in ("subscriptions", "topics")}


class Streaming:
    """``ldpbeam stream`` in a folder of its own, with an engine that does nothing.

    Attributes:
        jobs: what the engine was given to run.
        during: called while the engine would run.
    """

    def __init__(self, folder: Path, study: str, command: Callable[..., Any]) -> None:
        self.folder, self._command = folder, command
        self.jobs: list[StreamJob] = []
        self.during: Callable[[], object] = lambda: None
        self.output = folder / "out"
        self.study = folder / "study.yaml"
        self.study.write_text(study)
        self.prism = folder / "prism"
        self.prism.write_text("#!/bin/sh\necho '  -job_port int' >&2\necho '  -job_socket string' >&2\n")
        self.prism.chmod(0o755)

    def run(self, *options: object, **replaced: object) -> Any:
        """The command with these options, and others instead of those that it has to have."""
        own = {"study": self.study, "output": self.output, "prism_location": self.prism, **replaced}
        needed = [part for name, value in own.items() if value is not None for part in (f"--{name}", value)]
        return self._command("stream", *needed, *options)

    def pretend(self, pipeline: Any, job: StreamJob, here: bool) -> None:
        self.jobs.append(job)
        self.during()

    def refuse(self, *options: object, **replaced: object) -> str:
        """What is said of options that cannot be."""
        found = self.run(*options, **replaced)
        assert found.code == 2
        sentence, *rest = found.err.splitlines()
        assert rest in ([], ["See ldpbeam stream --help"])
        assert found.out == ""
        assert sentence.startswith("ldpbeam: ")
        assert self.jobs == []
        return str(sentence.removeprefix("ldpbeam: "))


@pytest.fixture
def streaming(
    tmp_path: Path, small_text: str, command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> Streaming:
    made = Streaming(tmp_path, small_text + WINDOWS, command)
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


# What is right starts, so that what follows is refused for what is wrong in it.


def test_files_start(streaming: Streaming) -> None:
    renamed = ("--column", "user_id=uid", "--column", "payload=blob")
    found = streaming.run("--input", "in/*", "--stop-when-idle", "5s", "--max_disorder", "30s", *renamed)
    assert (found.code, found.err) == (0, "")
    (job,) = streaming.jobs
    assert job.feed.columns.renamed == (("user_id", "uid"), ("payload", "blob"))
    assert (job.feed.name, job.stop_when_idle, job.disorder, job.native) == ("in/*", 5000, 30_000, False)
    assert found.out.startswith(f"run {job.run}: reading in/*; stop with Ctrl-C\n")


def test_a_subscription_starts(streaming: Streaming, server: Any) -> None:
    found = streaming.run("--subscription", SUBSCRIPTION, "--publish-to", TOPIC)
    assert (found.code, found.err) == (0, "")
    assert f"reading {SUBSCRIPTION} at {server.address}; stop with Ctrl-C\n" in found.out


@pytest.mark.parametrize("fails", [False, True])
def test_a_topic_has_a_subscription_of_its_own_while_the_run_lasts(
    fails: bool, streaming: Streaming, server: Any
) -> None:
    there: list[set[str]] = []

    def during() -> None:
        there.append(set(server._subscriptions))
        if fails:
            raise RuntimeError("the engine fell over")

    streaming.during = during
    with pytest.raises(RuntimeError) if fails else contextlib.nullcontext():
        assert streaming.run("--topic", TOPIC).code == 0
    (during_the_run,) = there
    (own,) = during_the_run - {SUBSCRIPTION}
    assert streaming.jobs[0].feed.name == own
    assert set(server._subscriptions) == {SUBSCRIPTION}


# The study, and options by themselves.


def test_a_study_without_windows(streaming: Streaming, small_text: str) -> None:
    streaming.study.write_text(small_text)
    said = streaming.refuse("--input", "in/*")
    assert said == f"{streaming.study}: a stream needs windows, as in windows: {{size: 1h}}"


def test_a_study_that_is_not_there(streaming: Streaming) -> None:
    assert "nothing.yaml" in streaming.refuse("--input", "in/*", study=streaming.folder / "nothing.yaml")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--max-disorder=-1s"], "--max-disorder -1s: write a whole number and a unit"),
        (["--stop-when-idle", "1.5h"], "--stop-when-idle 1.5h: write a whole number and a unit"),
        (["--service", "c"], "--service c: the study has a, b"),
        (["--attribute", "z"], "--attribute z: the study has x"),
        (["--partitions", "0"], "--partitions 0: from 1 to 65,536"),
        (["--publish-to", "reports"], "--publish-to reports: write it as projects/PROJECT/topics/NAME"),
        (["--partitions", "some"], "--partitions some: a whole number"),
        (["--subscribtion", SUBSCRIPTION], "unknown option --subscribtion; did you mean --subscription?"),
        (["--overwrite"], "unknown option --overwrite"),
        (["--runner", "moon"], "--runner moon: "),
        (["--user-id-key-file", "nothing.key"], "--user-id-key-file nothing.key: No such file or directory"),
    ],
)
def test_an_option_that_cannot_be(options: list[str], said: str, streaming: Streaming) -> None:
    assert streaming.refuse("--input", "in/*", *options).startswith(said)
    assert not streaming.output.exists()


@pytest.mark.parametrize("missing", ["study", "output"])
def test_options_that_are_needed(missing: str, streaming: Streaming) -> None:
    said = streaming.refuse("--input", "in/*", **{missing: None})
    assert said == f"the following arguments are required: --{missing}"


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--subscription", SUBSCRIPTION, "--input", "in/*"],
    ],
)
def test_not_one_thing_to_read(options: list[str], streaming: Streaming) -> None:
    said = "name one thing to read: --subscription, --topic (projects/P/topics/T) or --input"
    assert streaming.refuse(*options) == said
    assert not streaming.output.exists()


# Pub/Sub.


def test_what_is_not_on_the_server(streaming: Streaming, server: Any) -> None:
    for given in (
        ["--subscription", ELSEWHERE["subscriptions"]],
        ["--topic", ELSEWHERE["topics"]],
        ["--input", "in/*", "--publish-to", ELSEWHERE["topics"]],
    ):
        said = streaming.refuse(*given)
        assert said == f"the server at {server.address} (PUBSUB_EMULATOR_HOST): {given[-1]} does not exist"
        assert not streaming.output.exists()


def test_a_server_that_is_not_there(streaming: Streaming, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("google.cloud.pubsub_v1", reason="google-cloud-pubsub is not installed")
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", "localhost:1")
    monkeypatch.setattr(feed, "SERVER_SECONDS", 0.5)
    said = streaming.refuse("--topic", TOPIC)
    assert said.startswith("the server at localhost:1 (PUBSUB_EMULATOR_HOST): failed to connect")
    assert not streaming.output.exists()


def test_without_credentials(streaming: Streaming, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("google.cloud.pubsub_v1", reason="google-cloud-pubsub is not installed")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(streaming.folder / "nothing.json"))
    said = streaming.refuse("--subscription", SUBSCRIPTION)
    assert said.startswith("Google Pub/Sub: ")
    assert "nothing.json" in said


def test_without_the_library_of_pubsub(streaming: Streaming, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("google.cloud.pubsub_v1", raising=False)
    monkeypatch.setitem(sys.modules, "google.cloud.pubsub_v1", None)
    said = streaming.refuse("--subscription", SUBSCRIPTION)
    assert said == "Pub/Sub needs google-cloud-pubsub: pip install 'ldpbeam[pubsub]'"
    # Who reads files does not need it.
    assert streaming.run("--input", "in/*").code == 0


# The engine.


@pytest.mark.parametrize("name", ["nothing", "."])
def test_prism_where_there_is_nothing(name: str, streaming: Streaming) -> None:
    location = streaming.folder / name
    said = streaming.refuse("--input", "in/*", prism_location=location)
    assert said == f"--prism-location {location}: there is no such file"


def test_another_program_than_prism(streaming: Streaming) -> None:
    streaming.prism.write_text("#!/bin/sh\necho Prism of some other kind\n")
    said = streaming.refuse("--input", "in/*")
    assert said == f"--prism-location {streaming.prism}: the program is not Prism"


def test_prism_that_listens_on_every_interface(streaming: Streaming, server: Any) -> None:
    streaming.prism.write_text("#!/bin/sh\necho '  -job_port int' >&2\n")
    said = streaming.refuse("--subscription", SUBSCRIPTION)
    assert said.startswith(
        f"--runner direct: {streaming.prism} is Prism as Beam releases it, which listens on"
    )
    assert "--allow-open-ports" in said
    found = streaming.run("--subscription", SUBSCRIPTION, "--allow-open-ports")
    assert found.code == 0
    assert found.err.startswith(f"ldpbeam: {streaming.prism} is Prism as Beam releases it, which listens on")
    assert len(streaming.jobs) == 1


def test_prism_that_is_no_program(streaming: Streaming) -> None:
    streaming.prism.chmod(0o644)
    said = streaming.refuse("--input", "in/*")
    assert said.startswith(f"--prism-location {streaming.prism}: ")


@pytest.mark.parametrize("option", ["--input", "--stop-when-idle"])
def test_without_prism_what_needs_our_own_source_is_refused(
    option: str, streaming: Streaming, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines.prism, "get", lambda location, **_: None)
    given = {"--input": ["in/*"], "--stop-when-idle": ["5s", "--subscription", SUBSCRIPTION]}[option]
    found = streaming.run(option, *given, prism_location=None)
    assert found.code == 2
    without, said = found.err.splitlines()
    assert without.startswith("ldpbeam: Prism, Beam's local engine for streams, is not here")
    assert said == f"ldpbeam: {option} needs an engine that can run our own source: Prism or Flink"
    assert streaming.jobs == []
    assert not streaming.output.exists()


def test_without_prism_it_is_said_what_that_costs(
    streaming: Streaming, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines.prism, "get", lambda location, **_: None)
    found = streaming.run("--subscription", SUBSCRIPTION, prism_location=None)
    assert found.code == 0
    assert "a crash loses them" in found.err
    assert [job.native for job in streaming.jobs] == [True]


# The output folder, and what is read.


@pytest.mark.parametrize("name", ["files.json", "journal-0.json"])
def test_what_an_earlier_run_left_is_damaged(name: str, streaming: Streaming) -> None:
    assert streaming.run("--input", "in/*").code == 0
    (job,) = streaming.jobs
    streaming.jobs.clear()
    (streaming.output / "runs" / job.run / name).write_text("{")
    assert streaming.refuse("--input", "in/*").startswith(f"--output {streaming.output}: ")


def test_files_on_a_file_system_that_there_is_not(streaming: Streaming) -> None:
    assert streaming.refuse("--input", "foo://in/*").startswith("--input foo://in/*: ")


def test_a_study_may_be_on_any_file_system(streaming: Streaming, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "open_raw", lambda path: streaming.study.open("rb"))
    assert streaming.run("--input", "in/*", study="gs://bucket/study.yaml").code == 0
    assert [job.study.name for job in streaming.jobs] == ["small"]


def test_a_study_on_a_file_system_that_there_is_not(streaming: Streaming) -> None:
    said = streaming.refuse("--input", "in/*", study="foo://study.yaml")
    assert said.startswith("foo://study.yaml: cannot be read: ")


def test_what_an_earlier_run_left_open_is_said(streaming: Streaming) -> None:
    assert streaming.run("--input", "in/*").code == 0
    own = streaming.output / "runs" / streaming.jobs[0].run
    windows = [["x", hour * 3_600_000, (hour + 1) * 3_600_000] for hour in (1, 3)]
    (own / "journal-0.json").write_text(json.dumps({"stopped_at": None, "windows": windows}))
    found = streaming.run("--input", "in/*")
    assert found.code == 0
    assert found.err.splitlines()[0] == (
        "ldpbeam: earlier runs ended with 2 open windows, from 1970-01-01T01:00:00Z to 1970-01-01T04:00:00Z: "
        "this run marks their estimates as incomplete"
    )
    assert {window.start for window in streaming.jobs[1].incomplete} == {3_600_000, 3 * 3_600_000}


def test_damaged_files_are_said_at_the_end(streaming: Streaming) -> None:
    def accounting() -> None:
        own = streaming.output / "runs" / streaming.jobs[0].run
        names = ("in", "used", "duplicates", "late", "out_of_range", "dead_letters")
        found = {**dict.fromkeys(names, 0), "damaged_files": 2, "dead_letters_by_reason": {}}
        (own / "accounting.json").write_text(json.dumps(found))

    streaming.during = accounting
    found = streaming.run("--input", "in/*")
    assert found.code == 3
    assert "2 files are damaged: how many reports they lost is not known" in found.out
    assert "2 files are damaged: how many reports they lost is not known" in found.err
