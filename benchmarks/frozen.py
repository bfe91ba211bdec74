"""Freeze what the commands write, and say whether another commit writes the same bytes.

    python -m benchmarks.frozen write FILE      the hashes of all that the commands write
    python -m benchmarks.frozen compare FILE    the outputs that differ, exit code 1 if there are any

The inputs are the example studies with made-up people, and small files that hold everything that can be wrong
with a report: duplicates by user and by report id, damaged records, reports without a user, group or time.
Hashes hold on one machine with one set of packages; they compare two commits, and are not kept.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ldpbeam.command_line.main import main as ldpbeam

EXAMPLES = Path(__file__).parents[1] / "examples"
HOUR = 3_600_000
START = 1_795_168_800_000  # 2026-11-20T10:00:00Z
STUDY = """\
study: small
attributes:
  x:
    domain: {numeric: [0, 1]}
    buckets: 8
    services:
      a: {mechanism: piecewise, epsilon: 1.0}
      b: {mechanism: laplace, epsilon: 2.0}
    estimates:
      mean: {estimator: ivw}
      both: {estimator: ule}
  y:
    domain: {categories: [red, green, blue]}
    services:
      a: {mechanism: grr, epsilon: 1.0}
      c: {mechanism: olh, epsilon: 2.0}
    estimates:
      shares: {estimator: em}
"""
#: What stands behind the study, by a name.
SETTINGS = {
    "everything": "",
    "hours": "windows: {size: 1h}\n",
    "sliding": "windows: {size: 6h, period: 15m, allowed_lateness: 1h}\n",
    "groups": "windows: {size: 2h}\ngroups: {field: region, at_most: 2}\n",
    "kept": "duplicates: keep\nwindows: {size: 1h}\n",
    "no_ids": "windows: {size: 3h, period: 1h}\n",
}


def reports(with_ids: bool) -> Iterator[dict[str, object]]:
    """Reports of 400 users; some come twice, and some cannot be used."""
    rng = random.Random(17)
    for place in range(3_000):
        attribute = rng.choice("xy")
        service = rng.choice("ab" if attribute == "x" else "ac")
        payload: object = rng.choice([rng.uniform(-4, 4), 0.5, -0.5])
        if attribute == "y":
            payload = rng.randrange(3) if service == "a" else [rng.randrange(2**31), rng.randrange(4)]
        record: dict[str, object] = {
            "user_id": f"user {rng.randrange(400)}",
            "attribute": attribute,
            "service": service,
            "event_time": START + rng.randrange(0, 9 * HOUR, HOUR // 7),
            "payload": payload,
            "region": rng.choice(["north", "north", "south", "east", "west", None]),
        }
        if with_ids:
            record["report_id"] = rng.choice([None, f"r{rng.randrange(2_000)}"])
        if rng.random() < 0.03:
            record[rng.choice(sorted(record))] = rng.choice([None, "", "nothing", -1, 1e300, [1]])
        yield {name: value for name, value in record.items() if value is not None}
        if place % 10 == 0:
            yield {name: value for name, value in record.items() if value is not None}


def run(*arguments: object) -> tuple[int, str]:
    """Run a command: its exit code, and what it said."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = ldpbeam([str(argument) for argument in arguments])
    return code, out.getvalue()


def outputs(folder: Path) -> Iterator[tuple[str, str]]:
    """Run everything below a folder: the name of each output, and the hash of its bytes."""
    for example in sorted(path.parent for path in EXAMPLES.glob("*/study.yaml")):
        place = folder / example.name
        yield from _example(example, place)
    for name, setting in SETTINGS.items():
        place = folder / "wrong" / name
        place.mkdir(parents=True)
        lines = [json.dumps(record) for record in reports(name != "no_ids")]
        lines.insert(100, '{"user_id": "cut off')
        for part in range(3):
            (place / f"{part}.jsonl").write_text("\n".join(lines[part::3]) + "\n")
        study = place / "study.yaml"
        study.write_text(STUDY + setting)
        given = ["--study", study, "--input", place / "*.jsonl", "--output", place / "out"]
        yield from _ran(name, place / "out", "estimate", *given)
        spans = ["--from", "2026-11-20T12:00:00Z", "--to", "2026-11-20T18:00:00Z"]
        given[-1] = place / "span"
        if "windows" in setting:
            yield from _ran(f"{name}, a span", place / "span", "estimate", *given, *spans)
        if name == "hours":
            rolled = ["--study", study, "--statistics", place / "out" / "statistics" / "*.avro"]
            rolled += ["--window", "3h", "--output", place / "rolled"]
            yield from _ran(f"{name}, rolled up", place / "rolled", "rollup", *rolled)


def _example(example: Path, place: Path) -> Iterator[tuple[str, str]]:
    """Made-up people of an example, from its own program."""
    program = "commute/demo.py" if example.name == "commute" else "run.py"
    module: dict[str, object] = {"__name__": "example", "__file__": str(EXAMPLES / program)}
    exec(compile((EXAMPLES / program).read_text(), program, "exec"), module)
    if example.name not in ("commute", *module.get("EXAMPLES", {})):  # type: ignore[misc]
        return
    before = sys.argv
    chosen = [] if example.name == "commute" else [example.name]
    sys.argv = [program, *chosen, "--output", str(place), "--people", "5000"]
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            code = module["main"]()  # type: ignore[operator]
    finally:
        sys.argv = before
    yield f"{example.name}: exit code", str(code)
    yield from _files(example.name, place)


def _ran(name: str, output: Path, *arguments: object) -> Iterator[tuple[str, str]]:
    code, said = run(*arguments)
    yield f"{name}: exit code", str(code)
    yield f"{name}: said", hashlib.sha256(said.encode()).hexdigest()
    yield from _files(name, output)


def _files(name: str, place: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(place.rglob("*")):
        if path.is_file():
            yield f"{name}: {path.relative_to(place)}", hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> int:
    """Write, or compare; gives the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("write", "compare"))
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    # Always the same: the name of a run is made of the names of its inputs.
    folder = Path(tempfile.gettempdir()) / "ldpbeam-frozen"
    shutil.rmtree(folder, ignore_errors=True)  # what a killed run has left
    folder.mkdir()
    try:
        found = dict(outputs(folder))
    finally:
        shutil.rmtree(folder)
    if options.what == "write":
        options.file.write_text(json.dumps(found, indent=1) + "\n")
        print(f"{len(found)} outputs")
        return 0
    frozen = json.loads(options.file.read_text())
    differ = sorted(name for name in {*frozen, *found} if frozen.get(name) != found.get(name))
    for name in differ:
        what = "is new" if name not in frozen else "is gone" if name not in found else "differs"
        print(f"{name} {what}")
    print(f"{len(found)} outputs, {len(differ)} differ")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
