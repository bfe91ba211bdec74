"""The program that a Flex Template starts: ``ldpbeam stream`` on Dataflow, with the template's parameters.

Dataflow's launcher passes each parameter as ``--name=value``. It adds its own options in Beam's form: the
project, the region, and the file for the job. It then submits the job from this file.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ldpbeam.command_line.main import main


def launch(given: Sequence[str]) -> int:
    """Describe the job that the arguments ask for, and return the exit code."""
    # The launcher also names a runner. The last one counts, and ldpbeam's stages this package.
    return main(["stream", *given, "--runner=dataflow"])


if __name__ == "__main__":
    sys.exit(launch(sys.argv[1:]))
