"""The engine that runs a pipeline, and the pipeline options that Beam gets for it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions
from apache_beam.runners.direct.direct_runner import SwitchingDirectRunner
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.runners.runner import PipelineRunner, create_runner

from ldpbeam.pipelines.errors import UserError
from ldpbeam.runners import dataflow, direct, flink, prism
from ldpbeam.runners.flink.parts import FlinkError
from ldpbeam.transforms.sources import files


@dataclass(frozen=True)
class Engine:
    """An engine that is ready to run a pipeline.

    Attributes:
        runner: Beam's runner.
        arguments: the pipeline options for Beam, as on a command line.
        own_source: whether it can run our own unbounded source; if not, Beam's Pub/Sub transform reads.
        ended_when_past: whether this process ends a stream when its watermark has passed all windows.
        here: whether its workers are in this process.
    """

    runner: PipelineRunner
    arguments: tuple[str, ...]
    own_source: bool = True
    ended_when_past: bool = False
    here: bool = False

    def pipeline(self, beam_arguments: Sequence[str]) -> beam.Pipeline:
        """An empty pipeline on this engine, with further options as Beam spells them.

        Raises:
            UserError: if Beam refuses an option.
        """
        try:
            options = PipelineOptions([*self.arguments, *beam_arguments])
            return beam.Pipeline(runner=self.runner, options=options)
        except (ValueError, ImportError) as error:
            raise UserError(f"--runner {type(self.runner).__name__}: {error}") from None


def reach_from_elsewhere(options: argparse.Namespace) -> None:
    """Make the local paths in ``options`` absolute if workers may have another working folder."""
    if options.runner in (direct.NAME, prism.NAME):
        return
    if options.output:
        options.output = files.absolute(options.output)
    if options.input:
        options.input = list(map(files.absolute, options.input))


def only_for_flink(options: argparse.Namespace, *names: str) -> None:
    """Check that options of Flink alone are not given to another engine.

    Raises:
        UserError: for the first option that is.
    """
    for name in names:
        if getattr(options, name) is not None and options.runner != flink.NAME:
            dashed = name.replace("_", "-")
            raise UserError(f"--{dashed}: it is for --runner flink, and this is {options.runner}")


_OPTIONS_OF = {
    flink.NAME: ("flink_master", "parallelism"),
    dataflow.NAME: ("project", "region", "temp_location"),
}


def engine_of(
    options: argparse.Namespace, folder: Path, *, streaming: bool = False, given: Sequence[str] = ()
) -> Engine:
    """The engine that the options name.

    Args:
        options: the engine's options, with ``input`` and ``output`` of the command.
        folder: a local folder for files to stage; it must exist until the pipeline has been submitted.
        streaming: whether the pipeline is unbounded.
        given: the options that only Beam knows.

    Raises:
        UserError: if the engine does not exist, cannot be reached, or lacks an option.
    """
    only_for_flink(options, "workers", "pool", "savepoint")
    try:
        if options.runner == direct.NAME:
            if streaming:
                return _local_stream(options)
            return Engine(direct.runner(), _passed_on(options), here=True)
        if options.runner == prism.NAME:
            found = _prism(options, streaming)
            if found is None:
                raise ValueError(f"it is not here; {prism.HOW}")
            return found
        if options.runner == flink.NAME:
            return _flink(options, streaming)
        if options.runner == dataflow.NAME:
            return _dataflow(options, folder, streaming, given)
        return _named(options, streaming, given)
    except (FlinkError, ValueError, ImportError) as error:
        raise UserError(f"--runner {options.runner}: {error}") from None


def only_with_open_ports_allowed(options: argparse.Namespace, problem: str) -> None:
    """Check that the user allowed an engine that others can reach, and print the problem if so.

    Args:
        options: the engine's options.
        problem: a clause that names what listens, on which interface, and what others could do.

    Raises:
        UserError: if ``--allow-open-ports`` is not given.
    """
    if not options.allow_open_ports:
        raise UserError(
            f"--runner {options.runner}: {problem}; where nobody can, give --allow-open-ports "
            "(docs/security.md)"
        )
    print(f"ldpbeam: {problem}", file=sys.stderr)


def _local_stream(options: argparse.Namespace) -> Engine:
    found = _prism(options, streaming=True)
    if found is None:
        print(f"ldpbeam: {prism.WITHOUT_PRISM}", file=sys.stderr)
        return Engine(prism.bundle_based(), ("--streaming",), own_source=False, here=True)
    return found


def _prism(options: argparse.Namespace, streaming: bool) -> Engine | None:
    """Prism as the engine; None if Prism is not on this machine.

    Raises:
        UserError: if ``--prism-location`` is wrong, or Prism has open ports and the user did not allow them.
    """
    try:
        found = prism.get(options.prism_location, allow_open=options.allow_open_ports)
    except (FileNotFoundError, ValueError) as error:
        named = "--prism-location " if options.prism_location is not None else ""
        raise UserError(f"{named}{error}") from None
    if found is None:
        return None
    if not found.closed:
        only_with_open_ports_allowed(options, f"{found.path} {prism.OPEN}; {prism.HOW}")
    return Engine(prism.runner(found), tuple(prism.options(streaming=streaming)), here=True)


def _flink(options: argparse.Namespace, streaming: bool) -> Engine:
    master = options.flink_master or flink.LOCAL
    if streaming and master == flink.LOCAL:
        raise ValueError("a stream needs a cluster, --flink-master HOST:PORT (make flink-up starts one)")
    workers = options.workers or ("pool" if options.pool else None)
    arguments = flink.options(
        master,
        workers=workers,
        pool=options.pool,
        streaming=streaming,
        parallelism=options.parallelism,
        savepoint=options.savepoint,
    )
    reached = flink.open_ports(master, workers)
    if reached is not None:
        only_with_open_ports_allowed(options, reached)
    return Engine(
        flink.runner(),
        tuple(arguments),
        ended_when_past=streaming,
        here=(workers or flink.default_workers(master)) == "loopback",
    )


def _dataflow(options: argparse.Namespace, folder: Path, streaming: bool, given: Sequence[str]) -> Engine:
    missing = [f"--{o.replace('_', '-')}" for o in _OPTIONS_OF[dataflow.NAME] if getattr(options, o) is None]
    if missing:
        raise UserError(f"--runner dataflow needs {', '.join(missing)}")
    for option in ("input", "output"):
        named = getattr(options, option, None) or []
        local = [path for path in ([named] if isinstance(named, str) else named) if "://" not in path]
        if local:
            raise UserError(
                f"--{option} {local[0]}: workers on Dataflow cannot reach files of this machine; name gs://..."
            )
    runner = dataflow.runner()
    arguments = dataflow.options(
        options.project, options.region, options.temp_location, folder, streaming=streaming, given=given
    )
    return Engine(runner, tuple(arguments), own_source=False)


def _named(options: argparse.Namespace, streaming: bool, given: Sequence[str]) -> Engine:
    try:
        runner = create_runner(options.runner)
    except (AttributeError, TypeError, RuntimeError) as error:
        # Beam imports the name and calls it, whatever it is.
        raise ValueError(str(error)) from None
    if not isinstance(runner, PipelineRunner):
        raise ValueError("this is not a Beam runner")
    if _opens_ports(runner, given):
        only_with_open_ports_allowed(
            options,
            "what Beam starts here for it (Prism, a job server, LOOPBACK workers) listens on every "
            "interface, without a password: whoever reaches this machine could run programs here",
        )
    arguments = _passed_on(options)
    if streaming:
        arguments = ("--streaming", *arguments)
    return Engine(runner, arguments, own_source="dataflow" not in options.runner.lower())


def _passed_on(options: argparse.Namespace) -> tuple[str, ...]:
    """Our options that Beam also has, as Beam spells them, for a runner that Beam names."""
    return tuple(
        f"--{option}={getattr(options, option)}"
        for own in _OPTIONS_OF.values()
        for option in own
        if getattr(options, option) is not None
    )


def _opens_ports(runner: PipelineRunner, given: Sequence[str]) -> bool:
    """Whether a Beam runner starts a server on this machine that other machines can reach."""
    if isinstance(runner, SwitchingDirectRunner):
        # It runs Prism where it can.
        return True
    if not isinstance(runner, PortableRunner):
        return False
    portable = PipelineOptions(list(given)).view_as(PortableOptions)
    return not portable.job_endpoint or portable.environment_type == "LOOPBACK"
