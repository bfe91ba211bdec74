"""Jobs for Dataflow, from the command line to a server of the tests' own that takes them; no cloud."""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import beam_stream as example
import pytest
from apache_beam.internal.gcp import auth
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.dataflow import dataflow_runner

from ldpbeam.command_line.arguments import Parser
from ldpbeam.inputs import files as inputs
from ldpbeam.pipelines.graphs.batch import BatchJob
from ldpbeam.pipelines.graphs.batch_stages import build
from ldpbeam.pipelines.options.shared import add_engine_options
from ldpbeam.runners import dataflow, wheels
from ldpbeam.runners.engines import engine_of
from ldpbeam.runners.request import engine_request
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.schemas.study.yaml_file import parse_study

if TYPE_CHECKING:
    from google_server import GoogleServer, Job

pytestmark = pytest.mark.slow

try:
    dataflow.runner()
except ImportError as error:
    if os.environ.get("LDPBEAM_REQUIRE_INTEGRATION") == "1":
        raise
    pytest.skip(f"{error}, or pip install 'ldpbeam[test]'", allow_module_level=True)

PLACE = (
    "--runner", "dataflow", "--project", "project-1", "--region", "europe-west1", "--temp-location",
    "gs://bucket/tmp",
)  # fmt: skip


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of this checkout, which takes seconds to make."""
    return wheels.ours(tmp_path_factory.mktemp("package"))


@pytest.fixture
def google(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GoogleServer]:
    """A server for one test, and no way to any other."""
    from google_server import GoogleServer

    def local_only(host: Any, *rest: Any, **named: Any) -> Any:
        if host not in ("localhost", "127.0.0.1", "::1", None):
            raise AssertionError(f"{host} was looked for")
        return found(host, *rest, **named)

    found = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", local_only)
    # As if credentials had been looked for, which takes Beam half a minute, and there were none.
    monkeypatch.setattr(auth._Credentials, "_credentials_init", True)
    monkeypatch.setattr(auth._Credentials, "_credentials", None)
    monkeypatch.setattr(dataflow, "ours", lambda folder: Path(shutil.copy(package, folder)))
    # Between two looks at a job Beam sleeps for seconds.
    quick = SimpleNamespace(time=time.time, sleep=lambda seconds: time.sleep(seconds / 50))
    monkeypatch.setattr(dataflow_runner, "time", quick)
    with GoogleServer(tmp_path / "google") as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.store.url)
        yield server
    assert not server.unknown


@pytest.fixture
def study(small_text: str, tmp_path: Path) -> Path:
    """A study file of two services; duplicates are dropped, and users joined."""
    path = tmp_path / "study.yaml"
    path.write_text(small_text)
    return path


@pytest.fixture
def put_reports(
    google: GoogleServer, tmp_path: Path, simulate: Any, write_reports: Any
) -> Callable[..., int]:
    """Puts reports of a study's people into the bucket, below ``reports/``; gives how many."""

    def put(text: str) -> int:
        people = 500
        values = [place / people for place in range(people)]
        sent = simulate(
            parse_study(text), "x", values, users=[f"u{place}" for place in range(people)], seed=1
        )
        for file in write_reports(tmp_path / "sent", sent):
            google.objects[f"reports/{file.name}"] = file.read_bytes()
        return sum(len(part.times) for part in sent)

    return put


@pytest.fixture
def estimate(google: GoogleServer, command: Any, study: Path) -> Callable[..., Any]:
    """Runs ``ldpbeam estimate`` on Dataflow: (the output's name, further options)."""

    def run(output: str = "out", *options: str) -> Any:
        told = [*PLACE, f"--dataflow_endpoint={google.url}", "--no_auth", *options]
        return command(
            "estimate", "--study", study, "--input", "gs://bucket/reports/*", "--output",
            f"gs://bucket/{output}", *told,
        )  # fmt: skip

    return run


def check_submission(google: GoogleServer, ran: Any) -> None:
    """See that one job arrived, with all that workers need, and ended."""
    assert (ran.code, ran.err) == (0, "")
    (job,) = google.jobs
    assert job.problem is None
    assert job.state == "JOB_STATE_DONE"
    assert job.looks >= 2
    inside = {"Validate", "DropDuplicateIds", "GroupUsers", "Aggregate"}
    assert {"Read", *(f"Statistics/{name}" for name in inside), "WriteAccounting"} <= set(job.steps)
    environment = job.environment
    assert environment["version"]["job_type"] == "FNAPI_BATCH"
    assert environment["userAgent"]["name"].startswith("Apache Beam Python")
    assert {"use_runner_v2", "use_portable_job_submission"} <= set(environment["experiments"])
    (pool,) = environment["workerPools"]
    staged = google.staged(job)
    assert {package["name"] for package in pool["packages"]} == set(staged) - {"pipeline.pb"}
    assert set(staged) == {"ldpbeam-0.1.0.tar.gz", "extra_packages.txt", "pipeline.pb"}
    assert staged["extra_packages.txt"].decode() == "ldpbeam-0.1.0.tar.gz\n"
    check_options(job)


def check_options(job: Job) -> None:
    options = job.options
    assert (options["project"], options["region"]) == ("project-1", "europe-west1")
    assert options["temp_location"].startswith("gs://bucket/tmp/")
    assert not options["save_main_session"]
    assert "setup_file" not in options


def jobs_proto(put_reports: Any, study: Path, tmp_path: Path) -> Any:
    """The pipeline of a job that a dry run made, as ``ldpbeam estimate`` puts it together."""
    put_reports(study.read_text())
    parser = Parser("estimate", "")
    add_engine_options(parser)
    read = inputs.find_input(["gs://bucket/reports/*"], "stop")
    job = BatchJob(
        study=parse_study(study.read_text()), input=read, columns=Columns(), output="gs://bucket/out",
        run="run",
    )  # fmt: skip
    engine = engine_of(engine_request(parser.parse(PLACE)), tmp_path)
    build(pipeline := engine.pipeline(["--dry_run=True"]), job)
    return pipeline.run().job.proto_pipeline


def test_the_combiners_of_a_job_are_whole_and_workers_get_packages_alone(
    google: GoogleServer, put_reports: Any, study: Path, tmp_path: Path
) -> None:
    components = jobs_proto(put_reports, study, tmp_path).components
    (environment,) = components.environments.values()
    roles = [
        beam_runner_api_pb2.ArtifactStagingToRolePayload.FromString(artifact.role_payload).staged_name
        for artifact in environment.dependencies
    ]
    # Nothing of the main module.
    assert sorted(roles) == ["extra_packages.txt", "ldpbeam-0.1.0.tar.gz"]
    steps = {step.unique_name: step for step in components.transforms.values()}
    # Dataflow lifts those, and a grouping with a sum after it is none to it.
    combiners = {
        name: step for name, step in steps.items() if step.spec.urn == "beam:transform:combine_per_key:v1"
    }
    of_damage = "DamagedFiles/CombineGlobally(CountCombineFn)/CombinePerKey"
    assert set(combiners) == {"Statistics/Aggregate/Combine", "WriteAccounting/AddUp", of_damage}
    for name, step in combiners.items():
        payload = beam_runner_api_pb2.CombinePayload.FromString(step.spec.payload)
        assert payload.combine_fn.urn == "beam:combinefn:pickled_python:v1"
        assert payload.accumulator_coder_id in components.coders
        assert [components.transforms[part].unique_name for part in step.subtransforms] == [
            f"{name}/GroupByKey",
            f"{name}/Combine",
        ]
    assert not google.jobs
    assert all(name.startswith("reports/") for name in google.objects)


# What is in the package: tests/test_packages; installed code and plugins: tests/runners/test_wheels.
def test_a_checkout_is_staged_as_a_source_package_and_its_job_is_a_local_run(
    google: GoogleServer, put_reports: Any, estimate: Any, command: Any, study: Path
) -> None:
    reports = put_reports(study.read_text())
    check_submission(google, estimate())
    local = command(
        "estimate", "--study", study, "--input", "gs://bucket/reports/*", "--output", "gs://bucket/local"
    )
    assert local.code == 0
    names = {name.removeprefix("local/") for name in google.objects if name.startswith("local/")}
    assert {"estimates.jsonl", "accounting.json", "statistics/small-x-all.avro"} <= names
    for name in names:
        assert google.objects[f"out/{name}"] == google.objects[f"local/{name}"], name
    assert f'"used": {reports}' in google.objects["out/accounting.json"].decode()


@pytest.mark.parametrize("option", ["--dry_run", "--template_location"])
def test_a_job_that_does_not_run_is_refused(
    google: GoogleServer, put_reports: Any, estimate: Any, study: Path, option: str
) -> None:
    put_reports(study.read_text())
    before = dict(google.objects)
    ran = estimate("out", f"{option}=gs://bucket/template")
    assert ran.code == 2
    assert ran.err.startswith(f"ldpbeam: {option}: this command estimates when its job has read all input")
    assert (google.objects, google.jobs) == (before, [])


def test_a_job_that_fails_is_one_message(
    google: GoogleServer, put_reports: Any, estimate: Any, study: Path
) -> None:
    put_reports(study.read_text())
    google.fails = "Quota 'CPUS' exceeded. Limit: 8.0 in region europe-west1."
    ran = estimate()
    assert ran.code == 2
    assert ran.err.startswith("ldpbeam: the engine failed: Dataflow pipeline failed. State: FAILED")
    assert google.fails in ran.err


def test_a_stream_of_pubsub_is_submitted_and_goes_on_by_itself(
    google: GoogleServer, study: Path, commute_text: str
) -> None:
    study.write_text(commute_text)
    subscription, image = "projects/project-1/subscriptions/reports", "example.com/ldpbeam-dataflow:0.1.0"
    given = ["--study", str(study), "--subscription", subscription, "--output", "gs://bucket/out"]
    given += ["--runner=DataflowRunner", "--project=project-1", "--region=europe-west1"]
    given += [f"--sdk_container_image={image}", "--temp_location=gs://bucket/tmp"]
    example.main([*given, f"--dataflow_endpoint={google.url}", "--no_auth"])
    (job,) = google.jobs
    # What a Flex Template starts must not wait for its job.
    assert job.looks == 0
    assert job.streams
    assert job.environment["version"]["job_type"] == "FNAPI_STREAMING"
    assert "enable_streaming_engine" in job.environment["experiments"]
    (pool,) = job.environment["workerPools"]
    assert [each["containerImage"] for each in pool["sdkHarnessContainerImages"]] == [image]
    (pull,) = [
        step
        for step in job.pipeline.components.transforms.values()
        if step.spec.urn == "beam:transform:pubsub_read:v1"
    ]
    payload = beam_runner_api_pb2.PubSubReadPayload.FromString(pull.spec.payload)
    assert (payload.subscription, payload.with_attributes) == (subscription, True)
    assert {"Estimate/Elements/Decode", "Estimate/Statistics/Panes/FirePanes", "Write estimates"} <= set(
        job.steps
    )
