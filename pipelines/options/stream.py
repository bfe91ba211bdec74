"""The options of ``ldpbeam stream``."""

from __future__ import annotations

from ldpbeam.command_line.arguments import Parser, within
from ldpbeam.command_line.options import add_study_option
from ldpbeam.log_lines import LOG_JSON
from ldpbeam.pipelines.options.shared import (
    add_engine_options,
    add_output_option,
    add_privacy_options,
    add_unnamed_options,
)
from ldpbeam.pipelines.options.sources import STREAMED, enumerated
from ldpbeam.transforms.windows import MOST_SHARDS, SHARDS

#: The default of --max-disorder.
DISORDER = "1m"
#: The default of --metrics-host: only this machine reaches it.
METRICS_HOST = "127.0.0.1"


def add_options(parser: Parser) -> None:
    """Add the options of the command to its parser."""
    data = parser.add_argument_group(
        "what is read, and where to",
        f"One of {enumerated(STREAMED, 'and')}. The Pub/Sub server is the one in PUBSUB_EMULATOR_HOST, else "
        "Google's.",
    )
    add_study_option(data, "it must have windows")
    for source in STREAMED:
        source.add_options(data)
    add_output_option(data)
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
        help=f"how much out of order reports arrive at most (default: {DISORDER})",
    )  # fmt: skip
    times.add_argument(
        "--stop-when-idle", metavar="DURATION",
        help="end when nothing has come for so long; all windows close",
    )  # fmt: skip
    add_privacy_options(parser)
    work = parser.add_argument_group("how it is computed")
    work.add_argument(
        "--shards", type=within(int, 1, MOST_SHARDS), metavar="N", default=SHARDS,
        help=f"shards of users (default: {SHARDS})",
    )  # fmt: skip
    work.add_argument(
        "--resume", metavar="RUN",
        help="Flink: continue this run from the --savepoint that it was stopped with",
    )  # fmt: skip
    operating = parser.add_argument_group("how it is watched", "docs/operations.md says what to watch.")
    operating.add_argument(
        "--metrics-port", type=int, metavar="PORT",
        help="serve /metrics (for Prometheus), /healthz and /readyz on this port; 0 takes a free one",
    )  # fmt: skip
    operating.add_argument(
        "--metrics-host", metavar="ADDRESS",
        help=f"the interface of that port (default: {METRICS_HOST}, which only this machine reaches)",
    )  # fmt: skip
    operating.add_argument(LOG_JSON, action="store_true", help="each line on stderr is a JSON object")
    add_engine_options(parser)
