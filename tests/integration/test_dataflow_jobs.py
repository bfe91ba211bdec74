"""Jobs for Dataflow, from the command line to a server of the tests' own that takes them; no cloud."""

from __future__ import annotations

import importlib
import io
import json
import os
import socket
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator
from importlib.metadata import Distribution
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from apache_beam.internal.gcp import auth
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.dataflow import dataflow_runner
from support.registries import fresh

from ldpbeam.pipelines.commands.arguments import Parser
from ldpbeam.pipelines.commands.options import engine_request
from ldpbeam.pipelines.graphs import run
from ldpbeam.pipelines.graphs.batch import BatchJob
from ldpbeam.pipelines.graphs.engines import engine_of
from ldpbeam.pipelines.options.shared import add_engine_options
from ldpbeam.pipelines.runs import inputs
from ldpbeam.runners import dataflow, wheels
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

ROOT = Path(__file__).parents[2]
#: What a source package has beside the folders.
BESIDE = {"setup.py", "pyproject.toml", "README.md", "LICENSE"}
PLACE = (
    "--runner",
    "dataflow",
    "--project",
    "project-1",
    "--region",
    "europe-west1",
    "--temp-location",
    "gs://bucket/tmp",
)
#: What a package of another person has: a mechanism, and an estimator.
PLUGIN = {
    "setup.py": "from setuptools import setup\n"
    "setup(name='ldp-widened', version='1.5', py_modules=['ldp_widened'], install_requires=['ldpbeam'],\n"
    "      entry_points={'ldpbeam.GROUP': ['widened = ldp_widened:Widened']})\n",
}
WIDENED = {
    "mechanisms": "import dataclasses\nfrom ldpbeam.mechanisms import Piecewise\n\n\n"
    "@dataclasses.dataclass(frozen=True)\nclass Widened(Piecewise):\n"
    "    name = 'widened'\n    summary = 'as another package ships it'\n",
    "estimators": "from ldpbeam.estimators import Estimate, Estimator, Question, registered_estimators\n\n"
    "ivw = registered_estimators()['ivw']\n"
    "def widened(question: Question) -> Estimate:\n    return ivw.function(question)\n"
    "Widened = Estimator('widened', 'as another package ships it', widened, ivw.check)\n",
}
#: What the study of the tests names in the place of which the package's own may stand.
IN_PLACE_OF = {"mechanisms": "piecewise", "estimators": "ivw"}


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> Iterator[GoogleServer]:
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
    # Between two looks at a job Beam sleeps for seconds.
    quick = SimpleNamespace(time=time.time, sleep=lambda seconds: time.sleep(seconds / 50))
    monkeypatch.setattr(dataflow_runner, "time", quick)
    with GoogleServer() as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
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
            "estimate",
            "--study",
            study,
            "--input",
            "gs://bucket/reports/*",
            "--output",
            f"gs://bucket/{output}",
            *told,
        )

    return run


def pip_install(package: Path, target: Path) -> Path:
    """Install a package and nothing that it needs, from nowhere else; gives the target."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-cache-dir"]
    command += ["--no-build-isolation", "--disable-pip-version-check", "--target", str(target), str(package)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


def files_of_the_package() -> set[str]:
    """What of this checkout's code is to be in every package of it, by its place once it is installed."""
    folders = ("ldpbeam", "schemas", "transforms", "pipelines", "runners")
    packages = [place.parent for folder in folders for place in (ROOT / folder).rglob("__init__.py")]
    code = {str(file.relative_to(ROOT)) for package in packages for file in package.glob("*.py")}
    data = {str(file.relative_to(ROOT)) for file in (ROOT / "schemas").glob("*.avsc")}
    assert len(code) > 100 and len(data) >= 3
    return set(map(installed, code | data | {"runners/flink/pom.xml", "ldpbeam/py.typed"}))


def installed(file: str) -> str:
    """Where a file of the checkout is once it is installed."""
    return file if file.startswith("ldpbeam/") else f"ldpbeam/{file}"


def check_submission(google: GoogleServer, ran: Any, *packages: str) -> dict[str, bytes]:
    """See that one job arrived, with all that workers need, and ended; gives what was staged."""
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
    assert set(staged) == {*packages, "extra_packages.txt", "pipeline.pb"}
    # The order in which workers install them: a plugin after what it needs.
    assert staged["extra_packages.txt"].decode().split() == list(packages)
    check_options(job)
    return staged


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
    good, bad = inputs.find_input(["gs://bucket/reports/*"], "stop")
    job = BatchJob(
        study=parse_study(study.read_text()), files=good, bad_files=bad, output="gs://bucket/out", run="run"
    )
    engine = engine_of(engine_request(parser.parse(PLACE)), tmp_path)
    pipeline = run.assemble(job, engine, ["--dry_run=True"])
    assert dataflow.is_dry_run(pipeline)
    return pipeline.run().job.proto_pipeline


def test_the_steps_of_a_job_have_our_names_its_combiners_are_whole_and_workers_get_packages_alone(
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
    assert {name for name in steps if "/" not in name and not name.startswith(("Unwindow", "ref_"))} == {
        *("Read", "Statistics", "WriteStatistics", "DeadLetters", "WriteDeadLetters", "Counts"),
        "WriteAccounting",
    }
    # Dataflow lifts those, and a grouping with a sum after it is none to it.
    combiners = {
        name: step for name, step in steps.items() if step.spec.urn == "beam:transform:combine_per_key:v1"
    }
    assert set(combiners) == {"Statistics/Aggregate/Combine", "WriteAccounting/AddUp"}
    for name, step in combiners.items():
        payload = beam_runner_api_pb2.CombinePayload.FromString(step.spec.payload)
        assert payload.combine_fn.urn == "beam:combinefn:pickled_python:v1"
        assert payload.accumulator_coder_id in components.coders
        assert [components.transforms[part].unique_name for part in step.subtransforms] == [
            f"{name}/GroupByKey",
            f"{name}/Combine",
        ]
    # What else is grouped is never added up alone, or is what was added up already.
    assert {
        name
        for name, step in steps.items()
        if step.spec.urn == "beam:transform:group_by_key:v1" and name.rpartition("/")[0] not in combiners
    } == {
        *("Read/SpreadRanges/ReshufflePerKey/GroupByKey", "Statistics/DropDuplicateIds/GroupReportIds"),
        *("Statistics/GroupUsers/GroupPartitions", "Statistics/Aggregate/GroupsOfWindow"),
        *("WriteDeadLetters/GroupShards", "WriteAccounting/Together"),
    }
    assert not google.jobs
    assert all(name.startswith("reports/") for name in google.objects)


def test_a_checkout_is_staged_as_a_source_package_and_its_job_is_a_local_run(
    google: GoogleServer, put_reports: Any, estimate: Any, command: Any, study: Path, tmp_path: Path
) -> None:
    reports = put_reports(study.read_text())
    staged = check_submission(google, estimate(), "ldpbeam-0.1.0.tar.gz")
    source = tmp_path / "ldpbeam-0.1.0.tar.gz"
    source.write_bytes(staged[source.name])
    with tarfile.open(source) as package:
        names = {name.partition("/")[2] for name in package.getnames()}
    assert files_of_the_package() | BESIDE <= names
    target = pip_install(source, tmp_path / "target")
    told = (
        "import ldpbeam.pipelines.main, ldpbeam.transforms.windows.unbounded as there\n"
        "from ldpbeam.schemas.encodings.avro import schema; schema('report'); print(there.__file__)"
    )
    environment = {**os.environ, "PYTHONPATH": str(target)}
    said = subprocess.run(
        [sys.executable, "-c", told],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip() == str(target / "ldpbeam" / "transforms" / "windows" / "unbounded.py")

    local = command(
        "estimate", "--study", study, "--input", "gs://bucket/reports/*", "--output", "gs://bucket/local"
    )
    assert local.code == 0
    names = {name.removeprefix("local/") for name in google.objects if name.startswith("local/")}
    assert {"estimates.jsonl", "accounting.json", "statistics/small-x-all.avro"} <= names
    for name in names:
        assert google.objects[f"out/{name}"] == google.objects[f"local/{name}"], name
    assert f'"used": {reports}' in google.objects["out/accounting.json"].decode()


def test_installed_code_is_staged_as_a_wheel(
    google: GoogleServer,
    put_reports: Any,
    estimate: Any,
    study: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put_reports(study.read_text())
    source = wheels.source_package(ROOT / "setup.py", tmp_path)
    site = pip_install(source, tmp_path / "site")
    monkeypatch.setattr(wheels, "checkout", lambda: None)
    (about,) = site.glob("ldpbeam-*.dist-info")
    monkeypatch.setattr(wheels, "distribution", lambda _: Distribution.at(about))
    staged = check_submission(google, estimate(), "ldpbeam-0.1.0-py3-none-any.whl")
    wheel = zipfile.ZipFile(io.BytesIO(staged["ldpbeam-0.1.0-py3-none-any.whl"]))
    needed = files_of_the_package()
    assert needed <= set(wheel.namelist())
    for file in sorted(needed):
        assert wheel.read(file) == (site / file).read_bytes()


@pytest.mark.parametrize("group", ["mechanisms", "estimators"])
def test_a_plugin_is_staged_after_the_code_that_it_adds_to(
    group: str,
    google: GoogleServer,
    put_reports: Any,
    estimate: Any,
    study: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    registry = importlib.import_module(f"ldpbeam.{group}.registry")
    for file, text in {**PLUGIN, "ldp_widened.py": WIDENED[group]}.items():
        (project / file).write_text(text.replace("GROUP", group))
    monkeypatch.delitem(sys.modules, "ldp_widened", raising=False)
    monkeypatch.syspath_prepend(pip_install(project, tmp_path / "site"))
    monkeypatch.setattr(registry, "_REGISTRY", fresh(registry._REGISTRY))
    study.write_text(study.read_text().replace(IN_PLACE_OF[group], "widened"))
    put_reports(study.read_text())
    ran = estimate()
    packages = ("ldpbeam-0.1.0.tar.gz", "ldp_widened-1.5-py3-none-any.whl")
    staged = check_submission(google, ran, *packages)
    wheel = zipfile.ZipFile(io.BytesIO(staged[packages[1]]))
    assert wheel.read("ldp_widened.py").decode() == WIDENED[group]
    assert b"widened = ldp_widened:Widened" in wheel.read("ldp_widened-1.5.dist-info/entry_points.txt")


def test_a_plugin_that_cannot_be_staged_may_be_named(
    google: GoogleServer, put_reports: Any, estimate: Any, study: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    put_reports(study.read_text())
    monkeypatch.setattr(dataflow, "plugins", lambda: [SimpleNamespace(name="ldp-widened")])

    def refuse(*_: Any) -> Path:
        raise ValueError("ldp-widened: an editable install; install it, or name a wheel of it")

    monkeypatch.setattr(dataflow, "wheel_of", refuse)
    ran = estimate()
    assert (ran.code, ran.err) == (
        2,
        "ldpbeam: --runner dataflow: ldp-widened: an editable install; install it, or name a wheel of it\n",
    )
    wheel = tmp_path / "ldp_widened-1.5-py3-none-any.whl"
    wheel.write_bytes(b"theirs")
    staged = check_submission(
        google, estimate("out", f"--extra_package={wheel}"), "ldpbeam-0.1.0.tar.gz", wheel.name
    )
    assert staged[wheel.name] == b"theirs"


def test_a_dry_run_leaves_everything_as_it_was(
    google: GoogleServer, put_reports: Any, estimate: Any, study: Path
) -> None:
    put_reports(study.read_text())
    assert estimate().code == 0
    study.write_text(study.read_text().replace("buckets: 8", "buckets: 16"))
    before, jobs = dict(google.objects), len(google.jobs)
    ran = estimate("out", "--overwrite", "--dry_run=True")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "a dry run: the job was made and not submitted; no report was read, nothing was estimated, and "
        "gs://bucket/out is as it was\n"
    )
    assert google.objects == before
    assert len(google.jobs) == jobs


def test_a_bounded_run_makes_no_template(
    google: GoogleServer, put_reports: Any, estimate: Any, study: Path
) -> None:
    put_reports(study.read_text())
    before = dict(google.objects)
    ran = estimate("out", "--template_location=gs://bucket/template")
    assert ran.code == 2
    assert ran.err.startswith("ldpbeam: --template_location: this command estimates when its job has ended")
    assert google.objects == before


def test_a_job_that_fails_is_one_message(
    google: GoogleServer, put_reports: Any, estimate: Any, study: Path
) -> None:
    put_reports(study.read_text())
    google.fails = "Quota 'CPUS' exceeded. Limit: 8.0 in region europe-west1."
    ran = estimate()
    assert ran.code == 2
    assert ran.err.startswith("ldpbeam: the engine failed: Dataflow pipeline failed. State: FAILED")
    assert google.fails in ran.err


@pytest.mark.parametrize("option", ["--input", "--output"])
def test_files_of_this_machine_are_refused(
    google: GoogleServer, put_reports: Any, command: Any, study: Path, tmp_path: Path, option: str
) -> None:
    put_reports(study.read_text())
    told = {"--input": "gs://bucket/reports/*", "--output": "gs://bucket/out"}
    told[option] = str(tmp_path / "here")
    if option == "--input":
        (tmp_path / "here").write_text("{}\n")
    ran = command("estimate", "--study", study, *[word for pair in told.items() for word in pair], *PLACE)
    assert (ran.code, ran.err) == (
        2,
        f"ldpbeam: {option} {told[option]}: workers on Dataflow cannot reach files of this machine; name gs://...\n",
    )
    assert not google.jobs


@pytest.fixture
def stream(
    google: GoogleServer,
    own_pubsub: Any,
    topic_and_subscription: Any,
    command: Any,
    commute_text: str,
    study: Path,
) -> Callable[..., Any]:
    """Runs ``ldpbeam stream`` on Dataflow, with further options; gives the subscription too."""
    study.write_text(commute_text)
    names = topic_and_subscription(own_pubsub.address)

    def run(*options: str) -> Any:
        told = ("--study", study, "--subscription", names.subscription, "--output", "gs://bucket/out")
        told += (*PLACE, f"--dataflow_endpoint={google.url}", "--no_auth", *options)
        return command("stream", *told), names

    return run


def test_a_dry_run_of_a_stream_leaves_everything_as_it_was(google: GoogleServer, stream: Any) -> None:
    ran, _ = stream("--dry_run=True")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("a dry run: the job was made and not submitted; nothing was read")
    assert not google.objects


def test_a_stream_may_be_a_template(google: GoogleServer, stream: Any) -> None:
    ran, _ = stream("--template_location=gs://bucket/template")
    assert (ran.code, ran.err) == (0, "")
    assert "the job is the template gs://bucket/template, and was not started" in ran.out
    assert json.loads(google.objects["template"])["type"] == "JOB_TYPE_STREAMING"
    assert not google.jobs


def test_a_stream_is_submitted_and_goes_on_by_itself(google: GoogleServer, stream: Any) -> None:
    ran, names = stream()
    assert (ran.code, ran.err) == (0, "")
    assert (
        "job 0 continues without this command; `gcloud dataflow jobs drain 0 --region=europe-west1`"
        in ran.out
    )
    (job,) = google.jobs
    assert job.streams
    assert job.environment["version"]["job_type"] == "FNAPI_STREAMING"
    assert "enable_streaming_engine" in job.environment["experiments"]
    check_options(job)
    (pull,) = [
        step
        for step in job.pipeline.components.transforms.values()
        if step.spec.urn == "beam:transform:pubsub_read:v1"
    ]
    assert pull.unique_name == "Read/Pull/Read"
    payload = beam_runner_api_pb2.PubSubReadPayload.FromString(pull.spec.payload)
    assert (payload.subscription, payload.with_attributes) == (names.subscription, True)
    assert "Statistics/Panes/FirePanes" in job.steps
    assert {"ldpbeam-0.1.0.tar.gz", "pipeline.pb"} <= set(google.staged(job))
