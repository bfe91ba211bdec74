"""The engine that runs a pipeline, and the pipeline options that Beam gets for it.

Code that runs a pipeline imports this module and no engine: an engine is chosen by its name.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions
from apache_beam.runners.direct.direct_runner import SwitchingDirectRunner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.runners.runner import PipelineRunner, create_runner

from ldpbeam.errors import UserError
from ldpbeam.nearest import did_you_mean
from ldpbeam.runners import dataflow, flink
from ldpbeam.runners.flink.rest import FlinkError
from ldpbeam.runners.request import DATAFLOW, DIRECT, ENGINES, FLINK, EngineRequest

_View = TypeVar("_View", bound=PipelineOptions)


@dataclass(frozen=True)
class Engine:
    """An engine that is ready to run a pipeline.

    Attributes:
        runner: Beam's runner.
        arguments: the pipeline options for Beam, as on a command line.
        here: whether its workers are in this process.
    """

    runner: PipelineRunner
    arguments: tuple[str, ...]
    here: bool = False

    def pipeline(self, beam_arguments: Sequence[str]) -> beam.Pipeline:
        """An empty pipeline on this engine, with further options as Beam spells them.

        Raises:
            UserError: if Beam refuses an option.
        """
        try:
            options = _Options([*self.arguments, *beam_arguments])
            return beam.Pipeline(runner=self.runner, options=options)
        except (ValueError, ImportError) as error:
            raise UserError(f"--runner {type(self.runner).__name__}: {error}") from None


class _Options(PipelineOptions):
    """Pipeline options that are parsed once for each class that asks, and not each time.

    Beam asks five times for each step of a graph, and parses them each time: a sixth of a small run.
    """

    def view_as(self, cls: type[_View]) -> _View:
        """These options as a class of Beam's sees them; all views change the same values."""
        views = self.__dict__.setdefault("_views", {})
        if cls not in views:
            views[cls] = super().view_as(cls)
        view: _View = views[cls]
        return view


_OPTIONS_OF = {
    FLINK: ("flink_master",),
    DATAFLOW: ("project", "region", "temp_location"),
}


def engine_of(asked: EngineRequest, folder: Path, *, given: Sequence[str] = ()) -> Engine:
    """The engine that is asked for.

    Args:
        asked: the command's options for the engine.
        folder: a local folder for files to stage; it must exist until the pipeline has been submitted.
        given: the options that only Beam knows.

    Raises:
        UserError: if the engine does not exist, cannot be reached, or lacks an option.
    """
    try:
        if asked.runner == DIRECT:
            # Beam's DirectRunner silently chooses one of three engines. This is the one with split reads and
            # combiner lifting. It has one worker: two were slower, measured on two cores.
            return Engine(FnApiRunner(), _passed_on(asked), here=True)
        if asked.runner == FLINK:
            return _flink(asked, given)
        if asked.runner == DATAFLOW:
            return _dataflow(asked, folder, given)
        return _named(asked, given)
    except (FlinkError, ValueError, ImportError) as error:
        raise UserError(f"--runner {asked.runner}: {error}") from None


def _flink(asked: EngineRequest, given: Sequence[str]) -> Engine:
    arguments = flink.options(asked.flink_master, given)
    _say_what_listens("Beam's job server")
    return Engine(flink.runner(), tuple(arguments))


def _say_what_listens(what: str) -> None:
    print(
        f"ldpbeam: {what} listens on every interface of this machine until the run ends, and anyone who "
        "can reach it can run programs (docs/security.md)",
        file=sys.stderr,
    )


def _dataflow(asked: EngineRequest, folder: Path, given: Sequence[str]) -> Engine:
    project, region, temp_location = asked.project, asked.region, asked.temp_location
    if project is None or region is None or temp_location is None:
        missing = [
            f"--{name.replace('_', '-')}" for name in _OPTIONS_OF[DATAFLOW] if getattr(asked, name) is None
        ]
        raise UserError(f"--runner dataflow needs {', '.join(missing)}")
    for option, path in asked.paths:
        if "://" not in path:
            raise UserError(
                f"{option} {path}: workers on Dataflow cannot reach files of this machine; name gs://..."
            )
    runner = dataflow.runner()
    arguments = dataflow.options(project, region, temp_location, folder, given=given)
    return Engine(runner, tuple(arguments))


def _named(asked: EngineRequest, given: Sequence[str]) -> Engine:
    try:
        runner = create_runner(asked.runner)
    except ValueError:
        # Beam's message names its own classes alone.
        known = f"there are: {', '.join(ENGINES)}, and runners of Beam such as SparkRunner"
        raise ValueError(f"no such engine; {did_you_mean(asked.runner, ENGINES, known)}") from None
    except (AttributeError, TypeError, RuntimeError) as error:
        # Beam imports the name and calls it, even if it is not a runner.
        raise ValueError(str(error)) from None
    if not isinstance(runner, PipelineRunner):
        raise ValueError("this is not a Beam runner")
    if _opens_ports(runner, given):
        _say_what_listens("what Beam starts for it (a job server, LOOPBACK workers)")
    return Engine(runner, _passed_on(asked))


def _passed_on(asked: EngineRequest) -> tuple[str, ...]:
    """Our options that Beam also has, as Beam spells them, for a runner that Beam names."""
    return tuple(
        f"--{option}={getattr(asked, option)}"
        for options in _OPTIONS_OF.values()
        for option in options
        if getattr(asked, option) is not None
    )


def _opens_ports(runner: PipelineRunner, given: Sequence[str]) -> bool:
    """Whether a Beam runner starts a server on this machine that other machines can reach."""
    if isinstance(runner, SwitchingDirectRunner):
        # It runs a pipeline on an engine of Beam with open ports, if that engine supports the pipeline.
        return True
    if not isinstance(runner, PortableRunner):
        return False
    portable = PipelineOptions(list(given)).view_as(PortableOptions)
    return not portable.job_endpoint or portable.environment_type == "LOOPBACK"
