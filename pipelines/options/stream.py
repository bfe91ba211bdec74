"""The options of ``ldpbeam stream``."""

from __future__ import annotations

import argparse

from ldpbeam.command_line.arguments import Parser
from ldpbeam.command_line.shared_options import add_study_option
from ldpbeam.log_lines import LOG_JSON
from ldpbeam.pipelines.options.shared import (
    add_output_option,
    add_privacy_options,
    add_unnamed_options,
)
from ldpbeam.pipelines.options.sources import STREAMED, enumerated

#: The default of --max-disorder.
DISORDER = "1m"
#: The default of --metrics-host: only this machine reaches it.
METRICS_HOST = "127.0.0.1"


def add_options(parser: Parser) -> None:
    """Add the options of the command to its parser."""
    data = parser.add_argument_group(
        "input and output",
        f"One of {enumerated(STREAMED, 'and')}. The Pub/Sub server is the one in PUBSUB_EMULATOR_HOST, else "
        "Google's.",
    )
    add_study_option(data, "it must have windows")
    for source in STREAMED:
        source.add_options(data)
    add_output_option(data)
    data.add_argument(
        "--spool", metavar="FOLDER",
        help="a folder of this machine for the reports of open windows (default: below --output)",
    )  # fmt: skip
    data.add_argument(
        "--publish-to", metavar="TOPIC",
        help="projects/P/topics/T or kafka://HOST:PORT/T, for estimates as JSON",
    )  # fmt: skip
    data.add_argument(
        "--report", metavar="FILE", help="a page of the estimates, kept current as windows close"
    )
    add_unnamed_options(data)
    times = parser.add_argument_group("times")
    times.add_argument(
        "--max-disorder", metavar="DURATION",
        help=f"how far out of order reports may arrive (default: {DISORDER})",
    )  # fmt: skip
    times.add_argument(
        "--stop-when-idle", metavar="DURATION",
        help="end after this long without a report, and close all windows",
    )  # fmt: skip
    times.add_argument(
        "--drain", action="store_true",
        help=("when the stream is stopped, close the open windows, whose estimates are then incomplete; "
            "without it, the same command continues them"),
    )  # fmt: skip
    add_privacy_options(parser)
    operating = parser.add_argument_group("monitoring", "docs/operations.md says what to watch.")
    operating.add_argument(
        "--metrics-port", type=int, metavar="PORT",
        help="serve /metrics (for Prometheus), /healthz and /readyz on this port; 0 takes a free one",
    )  # fmt: skip
    operating.add_argument(
        "--metrics-host", metavar="ADDRESS",
        help=f"the interface of that port (default: {METRICS_HOST}, which only this machine can reach)",
    )  # fmt: skip
    operating.add_argument(LOG_JSON, action="store_true", help="each line on stderr is a JSON object")
    # It is refused, with what to do instead.
    operating.add_argument("--runner", metavar="ENGINE", help=argparse.SUPPRESS)
