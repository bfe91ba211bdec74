"""Google Dataflow: the options of Beam with which workers there run this code.

- The runner, the project, the region and a ``gs://`` folder for temporary files, as the user names them.
- This package: a source package of a checkout, else a wheel made of the installed files. So workers run the
  user's version, even if no index has it.
- The user's plugins (packages with an entry point of ldpbeam) as wheels, because a study may name their
  mechanisms.
- ``--no_save_main_session``: ldpbeam has nothing in ``__main__``, so nothing of it needs to be pickled.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from apache_beam.options.pipeline_options import (
    PipelineOptions,
    SetupOptions,
)
from apache_beam.runners.dataflow.dataflow_runner import DataflowRunner
from apache_beam.runners.runner import PipelineRunner

from ldpbeam.runners.wheels import canonical, ours, package_in, plugins, wheel_of


def runner() -> PipelineRunner:
    """The Dataflow runner.

    Raises:
        ImportError: if Beam's Google Cloud parts are not installed.
    """
    try:
        # Beam itself would notice only when the job is submitted.
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
    given: Sequence[str] = (),
) -> list[str]:
    """The options of Beam for a job on Dataflow; the staged packages are written to ``folder``.

    Args:
        project: the Google Cloud project.
        region: the region of the workers, such as europe-west1.
        temp_location: a folder on Cloud Storage, such as gs://bucket/tmp.
        folder: a local folder for the staged packages, which must exist until the job is submitted.
        given: the user's own options of Beam; a plugin that ``--extra_package`` names is not staged again.

    Raises:
        ValueError: if a package cannot be staged.
    """
    named = PipelineOptions(list(given)).view_as(SetupOptions).extra_packages or ()
    theirs = set(map(package_in, named))
    # Workers install packages in this order. A plugin needs this package, which pip would look for on an
    # index if it were not installed before. Workers install what --setup_file names last.
    staged = [ours(folder)]
    staged += [wheel_of(plugin, folder) for plugin in plugins() if canonical(plugin.name) not in theirs]
    return [
        f"--project={project}",
        f"--region={region}",
        f"--temp_location={temp_location}",
        "--no_save_main_session",
        *(f"--extra_package={package}" for package in staged),
    ]
