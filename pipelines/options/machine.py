"""The options of the commands that look after this machine."""

from __future__ import annotations

from ldpbeam.pipelines.options.arguments import Parser
from ldpbeam.pipelines.options.shared import add_prism_location
from ldpbeam.runners.names import DATAFLOW, DIRECT, FLINK, PRISM

#: The shells whose completion is tested or at least written by shtab.
SHELLS = ("bash", "zsh", "fish", "tcsh")


def doctor(parser: Parser) -> None:
    """Add the options of ``ldpbeam doctor``."""
    engine = parser.add_argument_group("engine")
    engine.add_argument(
        "--runner", choices=(DIRECT, PRISM, FLINK, DATAFLOW), default=DIRECT,
        help=f"the engine to look for (default: {DIRECT})",
    )  # fmt: skip
    add_prism_location(engine)
    engine.add_argument("--flink-master", metavar="HOST:PORT", help="the cluster, to see whether it answers")
    engine.add_argument("--pool", metavar="HOST:PORT", help="where a task manager finds its worker pool")


def completion(parser: Parser) -> None:
    """Add the argument of ``ldpbeam completion``."""
    group = parser.add_argument_group("which shell")
    group.add_argument("shell", choices=SHELLS, metavar="SHELL", help=f"one of {', '.join(SHELLS)}")
