"""The options of ``ldpbeam rollup``."""

from __future__ import annotations

from ldpbeam.pipelines.commands.arguments import Parser
from ldpbeam.pipelines.options.shared import add_processes_option, add_study_option


def add_options(parser: Parser) -> None:
    """Add the options of the command to its parser."""
    data = parser.add_argument_group("what is merged, and where to")
    add_study_option(data, "its estimates may be others")
    data.add_argument(
        "--statistics", required=True, nargs="+", metavar="FILE", help="files of snapshots, or globs"
    )
    data.add_argument(
        "--output", required=True, metavar="FOLDER", help="folder for everything the run writes"
    )
    data.add_argument("--overwrite", action="store_true", help="replace another run's outputs")
    data.add_argument("--window", metavar="DURATION", help="as in 1d; without, all windows become one")
    data.add_argument("--total", action="store_true", help="merge groups too")
    add_processes_option(parser.add_argument_group("how it is computed"))
