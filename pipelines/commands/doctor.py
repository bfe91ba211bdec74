"""``ldpbeam doctor``: what an engine needs, whether this machine has it, and how to get it."""

from __future__ import annotations

import argparse

from ldpbeam.pipelines.commands.options import engine_request
from ldpbeam.pipelines.errors import DONE, WRONG
from ldpbeam.pipelines.graphs.engines import only_for_flink
from ldpbeam.pipelines.printing import document
from ldpbeam.runners import doctor


def doctor_command(options: argparse.Namespace) -> int:
    """Run ``ldpbeam doctor`` and return its exit code: DONE, or WRONG if something needed is missing.

    Raises:
        UserError: if an option does not belong to the engine.
    """
    only_for_flink(engine_request(options), "flink_master", "pool")
    checks = list(doctor.checks(options.runner, options.flink_master, options.pool, options.prism_location))
    lacking = any(check.needed and check.found is None for check in checks)
    if document({"ready": not lacking, "checks": [check._asdict() for check in checks]}):
        return WRONG if lacking else DONE
    for check in checks:
        if check.found is not None:
            print(f"ok       {check.what}: {check.found}")
            continue
        print(f"{'MISSING' if check.needed else 'not here'}  {check.what}\n         {check.advice}")
    return WRONG if lacking else DONE
