"""Google Dataflow: what Beam must be told so that workers there run this code.

- the runner, project, region and a ``gs://`` folder for temporary files, as the person names them;
- this package: a source package of a checkout, else a wheel made of the installed files, so that workers run
  what the person runs, whether or not an index has it;
- the person's plugins (packages with an entry point of ours), as wheels: a study may name their mechanisms;
- ``--no_save_main_session``: nothing of ours is in ``__main__``, so nothing of it is pickled;
- whether it is a stream, whose state Beam then leaves to the service (Streaming Engine).

Pub/Sub is read with Beam's own transform, which is native there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import apache_beam as beam
from apache_beam.options.pipeline_options import (
    GoogleCloudOptions,
    PipelineOptions,
    SetupOptions,
    TestOptions,
)
from apache_beam.runners.dataflow.dataflow_runner import DataflowRunner
from apache_beam.runners.runner import PipelineRunner

from ldpbeam.runners.wheels import canonical, ours, package_in, plugins, wheel_of

NAME = "dataflow"


def runner() -> PipelineRunner:
    """The engine.

    Raises:
        ImportError: if Beam's Dataflow parts are not installed.
    """
    try:
        # Beam itself misses them when the job is submitted.
        from apache_beam.runners.dataflow.internal import apiclient  # noqa: F401
    except ImportError as error:
        raise ImportError(f"{error}; Beam's Google Cloud parts: pip install 'ldpbeam[gcp]'") from None
    return DataflowRunner()


def options(
    project: str,
    region: str,
    temp_location: str,
    folder: Path,
    *,
    streaming: bool = False,
    given: Sequence[str] = (),
) -> list[str]:
    """What Beam must be told.

    Args:
        project: the Google Cloud project.
        region: where workers run, as in europe-west1.
        temp_location: a folder on Cloud Storage, as in gs://bucket/tmp.
        folder: a local folder for what is staged, which must be there until the job is submitted.
        streaming: whether the job goes on until it is stopped.
        given: what the person tells Beam; a plugin that ``--extra_package`` names there is not staged again.

    Raises:
        ValueError: if a package cannot be staged.
    """
    named = PipelineOptions(list(given)).view_as(SetupOptions).extra_packages or ()
    theirs = set(map(package_in, named))
    # Workers install them in this order, and what a plugin needs (this package) must be there before it:
    # else it is looked for on an index. What --setup_file names is installed last.
    staged = [ours(folder)]
    staged += [wheel_of(plugin, folder) for plugin in plugins() if canonical(plugin.name) not in theirs]
    return [
        f"--project={project}",
        f"--region={region}",
        f"--temp_location={temp_location}",
        "--no_save_main_session",
        *(f"--extra_package={package}" for package in staged),
        *(["--streaming"] if streaming else []),
    ]


def is_dry_run(pipeline: beam.Pipeline) -> bool:
    """Whether running it makes the job and does not submit it (``--dry_run=True``); other engines do run."""
    # Beam takes any word for a yes.
    return isinstance(pipeline.runner, DataflowRunner) and bool(pipeline.options.view_as(TestOptions).dry_run)


def template_of(pipeline: beam.Pipeline) -> str | None:
    """The file in which running it leaves the job, to be started later (``--template_location``), if any."""
    if not isinstance(pipeline.runner, DataflowRunner):
        return None
    place: str | None = pipeline.options.view_as(GoogleCloudOptions).template_location
    return place
