"""What a Flex Template starts: ``ldpbeam stream`` on Dataflow, with the template's parameters.

Dataflow's launcher hands each parameter on as ``--name=value``, and says beside them what it knows itself as
Beam writes it: the project, the region, where the job is to be written. It then submits what was written.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ldpbeam.pipelines.main import main


def launch(given: Sequence[str]) -> int:
    """Describe the job that the arguments ask for; gives the exit code."""
    # The launcher names a runner too, as Beam does; the last one counts, and ours stages this package.
    return main(["stream", *given, "--runner=dataflow"])


if __name__ == "__main__":
    sys.exit(launch(sys.argv[1:]))
