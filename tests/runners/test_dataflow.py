"""What Beam is told for Dataflow; no cloud and none of its libraries needed."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions, SetupOptions
from apache_beam.runners.dataflow.dataflow_runner import DataflowRunner

from ldpbeam.errors import UserError
from ldpbeam.runners import dataflow
from ldpbeam.runners.engines import engine_of
from ldpbeam.runners.request import EngineRequest

PLACE = ("project", "europe-west1", "gs://bucket/tmp")


@pytest.fixture(autouse=True)
def packages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The plugins that are installed; what is staged is a file's name alone."""
    found: list[str] = []

    def wheel_of(package: SimpleNamespace, folder: Path) -> Path:
        return folder / f"{package.name}.whl"

    monkeypatch.setattr(dataflow, "ours", lambda folder: folder / "ours.tar.gz")
    monkeypatch.setattr(dataflow, "plugins", lambda: [SimpleNamespace(name=name) for name in found])
    monkeypatch.setattr(dataflow, "wheel_of", wheel_of)
    return found


def staged(*given: str) -> list[str]:
    """The names of the packages that workers install, in order."""
    options = PipelineOptions([*dataflow.options(*PLACE, Path("folder"), given=given), *given])
    packages = options.view_as(SetupOptions).extra_packages
    return [Path(package).name for package in packages]


def test_a_job_is_where_the_person_says() -> None:
    options = PipelineOptions(dataflow.options(*PLACE, Path("folder")))
    own = options.view_as(GoogleCloudOptions)
    assert (own.project, own.region, own.temp_location) == PLACE


def test_a_plugin_is_installed_after_what_it_needs(packages: list[str]) -> None:
    packages += ["coin", "dice"]
    assert staged() == ["ours.tar.gz", "coin.whl", "dice.whl"]
    # Beam's workers install what this names last of all.
    assert PipelineOptions(dataflow.options(*PLACE, Path("f"))).view_as(SetupOptions).setup_file is None


def test_a_plugin_that_the_person_stages_is_not_staged_twice(packages: list[str]) -> None:
    packages += ["Fair.Coin", "dice"]
    assert staged("--extra_package=own/fair_coin-1-py3-none-any.whl") == [
        "ours.tar.gz",
        "dice.whl",
        "fair_coin-1-py3-none-any.whl",
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"paths": (("--input", "here"),)},
            "--input here: workers on Dataflow cannot reach files of this machine; ",
        ),
        (
            {"paths": (("--input", "gs://b/in"), ("--output", "out"))},
            "--output out: workers on Dataflow cannot",
        ),
        ({"region": None}, "--runner dataflow needs --region"),
        ({}, "--runner dataflow: dice: it was installed as editable; install it without -e, or name"),
    ],
)
def test_what_workers_could_not_have_is_refused(
    change: dict[str, Any], said: str, packages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(package: SimpleNamespace, folder: Path) -> Path:
        raise ValueError(
            f"{package.name}: it was installed as editable; install it without -e, or name a wheel of it"
        )

    packages.append("dice")
    monkeypatch.setattr(dataflow, "wheel_of", refuse)
    monkeypatch.setattr(dataflow, "runner", DataflowRunner)
    asked = EngineRequest("dataflow", project=PLACE[0], region=PLACE[1], temp_location=PLACE[2])
    with pytest.raises(UserError) as caught:
        engine_of(replace(asked, **change), Path("folder"))
    assert str(caught.value).startswith(said)


def test_without_beams_parts_for_it_there_is_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    # None: as if it could not be found.
    monkeypatch.setitem(sys.modules, "apache_beam.runners.dataflow.internal.apiclient", None)
    monkeypatch.delattr("apache_beam.runners.dataflow.internal.apiclient", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'ldpbeam\[gcp\]'"):
        dataflow.runner()
