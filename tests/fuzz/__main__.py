"""``python -m fuzz``: fuzz some targets, print a line of JSON for each, keep what broke them."""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

# Both are read when pyarrow is loaded: memory that a decoder gave back is given back to the system.
os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
os.environ["MALLOC_ARENA_MAX"] = "1"

from fuzz import run
from fuzz.targets import TARGETS, Target

#: Where inputs are kept that broke a rule, and how many processes run at a time.
FOUND, PROCESSES = Path(__file__).parents[2] / "build" / "fuzz", 2


def main() -> int:
    """Fuzz; gives 1 if a decoder broke a rule."""
    parser = argparse.ArgumentParser(prog="python -m fuzz")
    names = [target.name for target in TARGETS]
    parser.add_argument("--target", nargs="+", choices=names, default=names)
    parser.add_argument(
        "--seconds", type=float, help="for each target; by default the inputs of a run of the tests"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--input", type=int, help="print the bytes of this one input of the seed")
    options = parser.parse_args()
    chosen = [target for target in TARGETS if target.name in options.target]
    if options.input is not None:
        own = run.Work(chosen[0], options.seed, options.input, 1)
        sys.stdout.buffer.write(own.input(options.input))
        return 0
    tasks = [_task(target, options) for target in chosen]
    return 0 if run.in_parallel(tasks, PROCESSES) else 1


def _task(target: Target, options: argparse.Namespace) -> Callable[[], None]:
    def task() -> None:
        count = None if options.seconds else target.inputs
        try:
            done = run.fuzz(target, options.seed, count=count, seconds=options.seconds)
        except Exception:
            traceback.print_exc()
            raise
        kinds = [
            {"kind": f.kind, "number": f.number, "path": str(f.save(FOUND)), "detail": f.detail}
            for f in done.failures
        ]
        line = {"target": done.target, "inputs": done.inputs, "taken": done.taken, "failures": kinds}
        print(json.dumps(line), flush=True)
        if kinds:
            os._exit(1)

    return task


if __name__ == "__main__":
    sys.exit(main())
