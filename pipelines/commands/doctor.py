"""``ldpbeam doctor``: what an engine needs, whether this machine has it, and how to get it."""

from __future__ import annotations

from ldpbeam.pipelines.commands.arguments import Parser
from ldpbeam.pipelines.errors import DONE, WRONG
from ldpbeam.pipelines.graphs.engines import only_for_flink
from ldpbeam.runners import dataflow, direct, doctor, flink, prism


def doctor_command(parser: Parser, arguments: list[str]) -> int:
    """Run ``ldpbeam doctor`` and return its exit code: DONE, or WRONG if something needed is missing.

    Raises:
        UserError: if an option does not belong to the engine.
    """
    engines = (direct.NAME, prism.NAME, flink.NAME, dataflow.NAME)
    parser.add_argument("--runner", choices=engines, default=direct.NAME)
    parser.add_argument("--prism-location", help="the Prism to look at, by default the one that a run takes")
    parser.add_argument("--flink-master", metavar="HOST:PORT", help="the cluster, to see whether it answers")
    parser.add_argument("--pool", metavar="HOST:PORT", help="where a task manager finds its worker pool")
    options = parser.parse(arguments)
    only_for_flink(options, "flink_master", "pool")
    lacking = False
    for check in doctor.checks(options.runner, options.flink_master, options.pool, options.prism_location):
        if check.found is not None:
            print(f"ok       {check.what}: {check.found}")
            continue
        lacking |= check.needed
        print(f"{'MISSING' if check.needed else 'not here'}  {check.what}\n         {check.advice}")
    return WRONG if lacking else DONE
