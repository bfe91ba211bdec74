"""``python -m fuzz``: fuzz some targets, print what they did, keep what broke them."""

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

FOUND = Path(__file__).parents[2] / "build" / "fuzz"


def main() -> int:
    """Fuzz; gives 1 if a decoder broke a rule."""
    parser = argparse.ArgumentParser(prog="python -m fuzz")
    names = [target.name for target in TARGETS]
    parser.add_argument("--target", nargs="+", choices=names, default=names)
    parser.add_argument("--seconds", type=float, help="for each target")
    parser.add_argument(
        "--inputs", type=int, help="for each target; without either, those of a run of the tests"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--input", type=int, help="print the bytes of this one input of the seed")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--found", type=Path, default=FOUND, help="folder for inputs that broke a rule")
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each target")
    options = parser.parse_args()
    chosen = [target for target in TARGETS if target.name in options.target]
    if options.input is not None:
        own = run.Work(chosen[0], options.seed, options.input, 1)
        sys.stdout.buffer.write(own.input(options.input))
        return 0
    tasks = [_task(target, options) for target in chosen]
    return 0 if run.in_parallel(tasks, options.processes) else 1


def _task(target: Target, options: argparse.Namespace) -> Callable[[], None]:
    def task() -> None:
        count = None if options.seconds else options.inputs or target.inputs
        try:
            done = run.fuzz(target, options.seed, count=count, seconds=options.seconds)
        except Exception:
            traceback.print_exc()
            raise
        kept = [run.minimised(target, failure) for failure in done.failures]
        paths = [failure.save(options.found) for failure in kept]
        _print(done, kept, paths, options.json)
        if kept:
            os._exit(1)

    return task


def _print(done: run.Fuzzed, failures: list[run.Failure], paths: list[Path], as_json: bool) -> None:
    if as_json:
        kinds = [
            {"kind": f.kind, "number": f.number, "bytes": len(f.data), "path": str(path), "detail": f.detail}
            for f, path in zip(failures, paths, strict=True)
        ]
        print(
            json.dumps(
                {"target": done.target, "inputs": done.inputs, "taken": done.taken, "failures": kinds}
            ),
            flush=True,
        )
        return
    lines = [
        f"{done.target:14} {done.inputs:>9,} inputs, {done.taken:,} taken, {len(failures)} kinds of failure"
    ]
    for failure, path in zip(failures, paths, strict=True):
        where = f"input {failure.number}, {len(failure.data):,} bytes: {path}"
        lines += [f"  {failure.kind} ({where})", *(f"    {line}" for line in failure.shown)]
    print("\n".join(lines), flush=True)


if __name__ == "__main__":
    sys.exit(main())
