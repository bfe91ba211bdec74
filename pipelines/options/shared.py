"""Options that several commands which run a pipeline share."""

from __future__ import annotations

import argparse

from ldpbeam.command_line.arguments import Parser
from ldpbeam.runners.request import LOCAL


def add_output_option(group: argparse._ArgumentGroup) -> None:
    """Add the option that names the folder of a run."""
    group.add_argument(
        "--output", required=True, metavar="FOLDER", help="folder for everything the run writes"
    )


def add_unnamed_options(group: argparse._ArgumentGroup) -> None:
    """Add what reports do not say: an attribute or a service, or a column by our name."""
    group.add_argument(
        "--attribute", metavar="NAME", help="attribute of reports that name none (default: the only one)"
    )
    group.add_argument(
        "--service", metavar="NAME", help="service of reports that name none (default: the only one)"
    )
    group.add_argument(
        "--column", action="append", metavar="OURS=THEIRS",
        help="read a column from a field of another name, as in user_id=uid; may be repeated",
    )  # fmt: skip
    group.add_argument(
        "--schemas", action="append", metavar="WHERE",
        help="Confluent's framing of Avro: the address of a schema registry, or ID=FILE for one schema; may "
        "be repeated",
    )  # fmt: skip


def add_privacy_options(parser: Parser) -> None:
    """Add what outputs may reveal about the input."""
    group = parser.add_argument_group("privacy of the outputs")
    group.add_argument(
        "--user-id-key-file", metavar="FILE", help="replace user ids by their HMAC with the key in this file"
    )
    group.add_argument(
        "--keep-bad-records", action="store_true",
        help="dead letters have the whole record, not only its hash",
    )  # fmt: skip


def add_engine_options(parser: Parser) -> None:
    """Add the options that choose an engine and say how to reach it."""
    engine = parser.add_argument_group("engine", "Options of Beam are passed to Beam unchanged.")
    engine.add_argument(
        "--runner", metavar="ENGINE", default=LOCAL,
        help="local (this process, without Beam), direct (Beam's own here), flink, dataflow, or one as "
        "Beam names it (default: local)",
    )  # fmt: skip
    cluster = parser.add_argument_group("Flink")
    cluster.add_argument("--flink-master", metavar="HOST:PORT", help="the cluster, by its web page's address")
    cloud = parser.add_argument_group("Dataflow")
    cloud.add_argument("--project", metavar="NAME", help="the Google Cloud project")
    cloud.add_argument("--region", metavar="NAME", help="as in europe-west1")
    cloud.add_argument("--temp-location", metavar="gs://BUCKET/FOLDER", help="for temporary files")
