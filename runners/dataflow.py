"""Google Dataflow: what Beam must be told so that workers there run this code.

- the runner, project, region and a ``gs://`` folder for temporary files, as the person names them;
- this package: ``setup.py`` from a checkout (Beam builds a source package of it), else a wheel made of the
  installed files, so that workers run what the person runs, whether or not an index has it;
- the person's plugins (packages with an entry point of ours), as wheels: a study may name their mechanisms;
- ``--no_save_main_session``: nothing of ours is in ``__main__``, so nothing of it is pickled;
- in a stream, Streaming Engine: state and shuffles are the service's, and workers come and go.

Pub/Sub is read with Beam's own transform, which is native there.
"""

from __future__ import annotations

from pathlib import Path

from apache_beam.runners.runner import PipelineRunner, create_runner

from ldpbeam.runners.wheels import checkout, plugins, wheel_of

NAME = "dataflow"


def runner() -> PipelineRunner:
    """The engine.

    Raises:
        ImportError: if Beam's Dataflow parts are not installed.
    """
    return create_runner("DataflowRunner")


def options(
    project: str, region: str, temp_location: str, folder: Path, *, streaming: bool = False
) -> list[str]:
    """What Beam must be told.

    Args:
        project: the Google Cloud project.
        region: where workers run, as in europe-west1.
        temp_location: a folder on Cloud Storage, as in gs://bucket/tmp.
        folder: a local folder for wheels, which must be there until the job is submitted.
        streaming: whether the job goes on until it is stopped.

    Raises:
        ValueError: if a package cannot be staged.
    """
    arguments = [
        f"--project={project}",
        f"--region={region}",
        f"--temp_location={temp_location}",
        "--no_save_main_session",
    ]
    setup = checkout()
    arguments.append(f"--setup_file={setup}" if setup else f"--extra_package={wheel_of('ldpbeam', folder)}")
    arguments += [f"--extra_package={wheel_of(package, folder)}" for package in plugins()]
    if streaming:
        arguments += ["--streaming", "--enable_streaming_engine"]
    return arguments
