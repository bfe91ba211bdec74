"""The options of the commands that merge what runs wrote."""

from __future__ import annotations

from ldpbeam.command_line.arguments import Parser
from ldpbeam.command_line.shared_options import add_processes_option, add_study_option
from ldpbeam.pipelines.options.shared import add_output_option


def ledger(parser: Parser) -> None:
    """Add the options of ``ldpbeam ledger``."""
    group = parser.add_argument_group("what to add up")
    group.add_argument(
        "folders", nargs="+", metavar="OUT",
        help="output folders of estimate or stream, with the same services, epsilons, windows and "
        "period, and one --user-id-key-file; the first one gets the sums, for ldpbeam report",
    )  # fmt: skip
    group.add_argument(
        "--study", metavar="FILE", help="the study whose cap and values_at_most count (default: the first)"
    )
    group.add_argument(
        "--accept-missing",
        action="store_true",
        help="name missing files of the ledger for times that have estimates, but do not exit with 3",
    )


def tidy(parser: Parser) -> None:
    """Add the options of ``ldpbeam tidy``."""
    group = parser.add_argument_group(
        "what to merge",
        "A stream's files of each UTC day become one of a kind: statistics, estimates, tables and tests of "
        "fit. No number changes. The stream must not be running.",
    )
    group.add_argument("folder", metavar="OUT", help="the output folder of a stream")
    group.add_argument(
        "--older-than", required=True, metavar="DURATION", help="only days at least this old, such as 30d"
    )


def rollup(parser: Parser) -> None:
    """Add the options of ``ldpbeam rollup``."""
    data = parser.add_argument_group("input and output")
    add_study_option(data, "its estimates may differ from those of the runs")
    data.add_argument(
        "--statistics", required=True, nargs="+", metavar="FILE", help="files of snapshots, or globs"
    )
    add_output_option(data)
    data.add_argument("--overwrite", action="store_true", help="replace another run's outputs")
    data.add_argument(
        "--window",
        metavar="DURATION",
        help="as in 1d, or month, quarter or year; without, all windows become one",
    )
    data.add_argument(
        "--zone",
        metavar="ZONE",
        help="whose days and months the new windows are, as in America/New_York (default: the study's)",
    )
    data.add_argument(
        "--offset", metavar="DURATION",
        help="how much later they begin, as in 6d for weeks from Sunday on (default: the study's)",
    )  # fmt: skip
    data.add_argument("--total", action="store_true", help="merge groups too")
    add_processes_option(parser.add_argument_group("computation"))
