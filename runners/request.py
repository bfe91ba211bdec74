"""A command's options for its engine, and the names of engines: importing them imports no engine."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from ldpbeam.command_line.arguments import LOCAL as LOCAL
from ldpbeam.command_line.arguments import Parser, filled
from ldpbeam.errors import UserError

DIRECT = "direct"
FLINK = "flink"
DATAFLOW = "dataflow"
ENGINES = (LOCAL, DIRECT, FLINK, DATAFLOW)


@dataclass(frozen=True)
class EngineRequest:
    """A command's options for its engine; None for an option that is not given.

    Attributes:
        runner: the name of the engine, ours or Beam's.
        paths: the inputs and the output, each with the option that names it.
        flink_master: the cluster of Flink.
        project: the project on Google Cloud.
        region: the region of Dataflow.
        temp_location: the folder of Dataflow for temporary files.
    """

    runner: str
    paths: tuple[tuple[str, str], ...] = ()
    flink_master: str | None = None
    project: str | None = None
    region: str | None = None
    temp_location: str | None = None

    def reachable(self, path: str) -> str:
        """A path as workers reach it: absolute, if they may have another working folder."""
        if self.runner in (LOCAL, DIRECT) or "://" in path:
            return path
        return str(Path(path).absolute())


def engine_request(options: argparse.Namespace) -> EngineRequest:
    """What the options say of the engine, and of the inputs and the output that its workers must reach.

    Raises:
        UserError: if an option is for another engine.
    """
    paths = [("--input", path) for path in getattr(options, "input", None) or ()]
    if getattr(options, "output", None):
        paths.append(("--output", options.output))
    asked = filled(EngineRequest, options, paths=tuple(paths))
    if asked.flink_master is not None and asked.runner in ENGINES and asked.runner != FLINK:
        raise UserError(f"--flink-master: it is for --runner flink, and this is {asked.runner}")
    return asked


def doctor(parser: Parser) -> None:
    """Add the options of ``ldpbeam doctor``."""
    engine = parser.add_argument_group("engine")
    engine.add_argument(
        "--runner", choices=ENGINES, default=LOCAL,
        help=f"the engine to look for (default: {LOCAL})",
    )  # fmt: skip
    engine.add_argument("--flink-master", metavar="HOST:PORT", help="the cluster, to see whether it answers")
