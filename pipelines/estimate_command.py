"""``ldpbeam estimate``: its options, and what it prints."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console

from ldpbeam.pipelines import compare, tables
from ldpbeam.pipelines import estimate as stages
from ldpbeam.pipelines.arguments import Parser
from ldpbeam.pipelines.batch import BatchJob
from ldpbeam.pipelines.errors import DONE, TOO_MANY_BAD, UserError
from ldpbeam.pipelines.ledger import write_ledger
from ldpbeam.pipelines.options import add_people_options, people_columns, study_of, time_of
from ldpbeam.pipelines.output import check_output, claim_output
from ldpbeam.pipelines.people import read_people
from ldpbeam.schemas.compiled import attribute_of
from ldpbeam.transforms.windows import beam_windows


def estimate_command(parser: Parser, arguments: list[str]) -> int:
    """Run ``ldpbeam estimate``; gives its exit code."""
    parser.add_argument("--study", required=True, help="the study file")
    parser.add_argument("--input", required=True, nargs="+", help="files of reports, or globs")
    parser.add_argument("--output", required=True, help="folder for everything the run writes")
    parser.add_argument("--attribute", help="attribute of reports that do not name one")
    parser.add_argument("--service", help="service of reports that do not name one")
    parser.add_argument(
        "--from", dest="start", metavar="TIME", help="leave out reports before this event time"
    )
    parser.add_argument("--to", dest="stop", metavar="TIME", help="leave out reports from this event time on")
    parser.add_argument("--runner", default="direct", help="direct, or a runner Beam knows")
    parser.add_argument("--on-bad-file", choices=("stop", "skip"), default="stop")
    parser.add_argument("--keep-bad-records", action="store_true", help="dead letters have the whole record")
    parser.add_argument("--max-bad-fraction", type=float, default=0.01, help="more: exit code 3")
    parser.add_argument("--overwrite", action="store_true", help="replace another run's outputs")
    parser.add_argument("--user-id-key-file", help="replace user keys by their HMAC with this key")
    parser.add_argument("--partitions", type=int, help="partitions of users; results do not change")
    parser.add_argument("--estimate-on", choices=("driver", "worker"), default="driver")
    parser.add_argument("--truth", help="CSV file of people: print errors against it")
    add_people_options(parser)
    parser.epilog = "Every option that Beam takes passes through, as Beam writes it."
    options, beam_arguments = parser.parse_with_beam(arguments)
    return run(options, beam_arguments)


def run(options: argparse.Namespace, beam_arguments: list[str]) -> int:
    """Run the pipeline with parsed options; gives the exit code."""
    study = study_of(options.study, options.attribute)
    if options.partitions is not None and not 1 <= options.partitions <= 65536:
        raise UserError(f"--partitions {options.partitions}: from 1 to 65536")
    if not 0 <= options.max_bad_fraction <= 1:
        raise UserError(f"--max-bad-fraction {options.max_bad_fraction}: from 0 to 1")
    console = Console()
    try:
        beam_windows(study.windows, joined=study.group_users)
    except ValueError as error:
        raise UserError(f"{options.study}: {error}") from None
    people = None
    columns = ("value_column", "key_column", "user_column", "time_column", "weight_column", "group_column")
    given = [f"--{name.replace('_', '-')}" for name in columns if getattr(options, name) is not None]
    if given and not options.truth:
        raise UserError(f"{', '.join(given)}: columns are of the file that --truth names, which is missing")
    if options.truth:
        if len(study.attributes) > 1 and not options.attribute:
            raise UserError("--truth needs --attribute: the study has several")
        truth_of = options.attribute or next(iter(study.attributes))
        domain = study.attribute(truth_of).domain
        people = read_people(options.truth, people_columns(options, domain), domain)
    span = time_of("--from", options.start), time_of("--to", options.stop)
    if span[0] is not None and span[1] is not None and span[0] >= span[1]:
        raise UserError(f"--from {options.start} is not before --to {options.stop}")
    every = {service for model in study.attributes.values() for service in model.services}
    if options.service is not None and options.service not in every:
        raise UserError(f"--service {options.service}: the study has {', '.join(sorted(every))}")
    if any(argument.partition("=")[0] == "--streaming" for argument in beam_arguments):
        raise UserError("--streaming: this command reads files to their end, and is not a streaming one")
    good, bad = stages.find_input(options.input, options.on_bad_file)
    job = BatchJob(
        study=study,
        files=good,
        bad_files=bad,
        output=options.output,
        run=stages.run_name(study, options.input, *span, options.attribute, options.service),
        attribute=options.attribute,
        service=options.service,
        start=span[0],
        stop=span[1],
        keep_bad_records=options.keep_bad_records,
        user_id_key=stages.read_key(options.user_id_key_file),
        partitions=options.partitions,
        estimate_on=options.estimate_on,
    )
    check_output(job, options.overwrite)
    pipeline = stages.assemble(job, options.runner, beam_arguments)
    claim_output(job, options.input)
    stages.run_pipeline(pipeline, console)
    found = stages.read_accounting(job)
    records = stages.estimate_all(job, console, options.estimate_on)
    ledger = write_ledger(job)
    errors = None
    if people is not None:
        errors = [
            compare.errors_of(r, study, people) if attribute_of(r["attribute"]) == truth_of else {}
            for r in records
        ]
    tables.print_estimates(console, records, errors)
    over = sum(entry["users_over_cap"] for entry in ledger)
    if over:
        what = "user-windows" if study.windows else "users"
        print(f"{over:,} {what} spent more than the study's epsilon_cap of {study.epsilon_cap:g}")
    print(tables.accounting_line(found))
    print(f"estimates, statistics and accounting are in {options.output}")
    if found["dead_letters"]:
        tables.print_reasons(console, found)
    if found["in"] and found["dead_letters"] > options.max_bad_fraction * found["in"]:
        share = found["dead_letters"] / found["in"]
        print(
            f"ldpbeam: {share:.2%} of the input is bad, more than --max-bad-fraction "
            f"{options.max_bad_fraction:g}; the outputs are written, look at them with care",
            file=sys.stderr,
        )
        return TOO_MANY_BAD
    return DONE
