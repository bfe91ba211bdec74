"""The options of ``ldpbeam perturb``."""

from __future__ import annotations

from ldpbeam.pipelines.commands.arguments import Parser
from ldpbeam.pipelines.options.shared import add_people_options, add_study_option


def add_options(parser: Parser) -> None:
    """Add the options of the command to its parser."""
    data = parser.add_argument_group("what is perturbed, and where to")
    add_study_option(data)
    data.add_argument("--attribute", required=True, metavar="NAME", help="which attribute the values are of")
    data.add_argument("--input", required=True, metavar="FILE", help="CSV file of people, with a header line")
    data.add_argument("--output", required=True, metavar="FOLDER", help="folder for the files of reports")
    data.add_argument(
        "--format", choices=("avro", "jsonl", "parquet"), default="avro",
        help="format of the files of reports (default: avro)",
    )  # fmt: skip
    data.add_argument(
        "--overwrite", action="store_true", help="replace reports of the same attribute and service"
    )
    add_people_options(parser)
    clients = parser.add_argument_group("clients")
    clients.add_argument("--services", nargs="+", metavar="NAME", help="only these services")
    clients.add_argument(
        "--versions", nargs="+", default=[], metavar="SERVICE=VERSION",
        help="the clients' version of a service whose versions are told apart by a field",
    )  # fmt: skip
    clients.add_argument("--round", type=int, metavar="N", help="PrivKVM: only the services of this round")
    clients.add_argument("--means", metavar="FILE", help="PrivKVM: estimates.jsonl of the round before")
    clients.add_argument("--start", metavar="TIME", help="the first event time, without --time-column")
    clients.add_argument(
        "--spread", default="1h", metavar="DURATION",
        help="event times lie within this of the first (default: 1h)",
    )  # fmt: skip
    clients.add_argument("--seed", type=int, metavar="N", help="draw from a seed: for tests only")
