"""The options of ``ldpbeam estimate``."""

from __future__ import annotations

from ldpbeam.command_line.arguments import Parser, within
from ldpbeam.command_line.shared_options import add_people_options, add_processes_option, add_study_option
from ldpbeam.pipelines.options.shared import (
    add_engine_options,
    add_output_option,
    add_privacy_options,
    add_unnamed_options,
)
from ldpbeam.pipelines.options.sources import BOUNDED, enumerated
from ldpbeam.transforms.windows import MOST_SHARDS

#: The default of --max-bad-fraction.
MAX_BAD_FRACTION = 0.01


def add_options(parser: Parser) -> None:
    """Add the options of the command to its parser."""
    data = parser.add_argument_group("input and output", f"One of {enumerated(BOUNDED, 'and')}.")
    add_study_option(data)
    for source in BOUNDED:
        source.add_options(data)
    add_output_option(data)
    data.add_argument("--overwrite", action="store_true", help="replace another run's outputs")
    add_unnamed_options(data)
    data.add_argument(
        "--from", dest="start", metavar="TIME",
        help="leave out reports before this event time, and windows that start before it",
    )  # fmt: skip
    data.add_argument(
        "--to", dest="stop", metavar="TIME",
        help="leave out reports from this event time on, and windows that end after it. With windows, runs "
        "that have --from and --to share one --output (docs/scheduling.md)",
    )  # fmt: skip
    bad = parser.add_argument_group("bad input")
    bad.add_argument(
        "--on-bad-file", choices=("stop", "skip"), default="stop",
        help="whether a file that cannot be read stops the run, or is counted and skipped (default: stop)",
    )  # fmt: skip
    bad.add_argument(
        "--max-bad-fraction", type=within(float, 0, 1), default=MAX_BAD_FRACTION, metavar="SHARE",
        help=f"exit with 3 if a larger share of the input than this is bad (default: {MAX_BAD_FRACTION})",
    )  # fmt: skip
    add_privacy_options(parser)
    work = parser.add_argument_group("computation")
    add_processes_option(work)
    work.add_argument(
        "--shards", type=within(int, 1, MOST_SHARDS), metavar="N",
        help="how many shards users are divided into; results do not change",
    )  # fmt: skip
    truth = parser.add_argument_group("comparison with the truth")
    truth.add_argument("--truth", metavar="FILE", help="CSV file of people: print errors against it")
    add_people_options(parser)
    add_engine_options(parser)
