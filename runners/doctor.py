"""``ldpbeam doctor``: what an engine needs, whether this machine has it, and how to get it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from ldpbeam.errors import DONE, WRONG
from ldpbeam.printing import document
from ldpbeam.runners.installed import Check, of_package
from ldpbeam.runners.request import LOCAL, engine_request
from ldpbeam.temporary import temporary_root


def doctor_command(options: argparse.Namespace) -> int:
    """Run ``ldpbeam doctor`` and return its exit code: DONE, or WRONG if something needed is missing."""
    asked = engine_request(options)
    checks = list(checks_of(asked.runner, asked.flink_master))
    lacking = any(check.needed and check.found is None for check in checks)
    document({"ready": not lacking, "checks": [check._asdict() for check in checks]})
    for check in checks:
        if check.found is not None:
            print(f"ok       {check.what}: {check.found}")
            continue
        print(f"{'MISSING' if check.needed else 'not here'}  {check.what}\n         {check.advice}")
    return WRONG if lacking else DONE


def checks_of(runner: str, master: str | None = None) -> Iterator[Check]:
    """Check the requirements of an engine, the most basic ones first.

    Args:
        runner: the engine's name.
        master: for Flink: the address of the cluster.
    """
    yield Check("Python", ".".join(map(str, sys.version_info[:3])))
    package, *extras = of_package()
    yield package
    engine = runner != LOCAL
    beam = False
    for extra in extras:
        is_beam = extra.what == "ldpbeam[beam]"
        beam = beam or (is_beam and extra.found is not None)
        yield extra._replace(needed=is_beam and engine)
    yield _temporary()
    if engine and beam and package.found is not None:
        # The engines' modules import Beam and more.
        from ldpbeam.runners.of_engines import of_engine

        yield from of_engine(runner, master)


def _temporary() -> Check:
    try:
        return Check("temporary folder", str(temporary_root()))
    except OSError as error:
        return Check("temporary folder", None, str(error))
