"""Without Beam everything on this machine works, and what needs Beam says so in one sentence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.studies import SMALL

ROOT = Path(__file__).parents[1]
SENTENCE = "{} needs Apache Beam for an engine: pip install 'ldpbeam[beam]'\n"
HOURS = "windows: {size: 1h, allowed_lateness: 10m}\n"
GROUPED = "groups: {field: region}\n"


@pytest.fixture
def without_beam(tmp_path: Path) -> dict[str, str]:
    """The environment of processes that have no Beam, as those of the plain install."""
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    text = "raise ModuleNotFoundError(\"No module named 'apache_beam'\", name='apache_beam')\n"
    (blocked / "apache_beam.py").write_text(text)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(blocked), str(ROOT)])}


def run(place: Path, environment: dict[str, str], *given: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ldpbeam.command_line.main", *map(str, given)]
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with studies, and with people of two services."""
    for name, more in (("plain", ""), ("hours", HOURS), ("grouped", GROUPED)):
        (tmp_path / f"{name}.yaml").write_text(SMALL + more)
    lines = [f"{n / 200},u{n},2026-11-20T0{n % 2}:10:00Z,{'ns'[n % 2]}" for n in range(200)]
    (tmp_path / "people.csv").write_text("\n".join(["x,user,at,region", *lines]))
    return tmp_path


@pytest.mark.slow
def test_every_command_on_this_machine_works(place: Path, without_beam: dict[str, str]) -> None:
    def done(line: str, code: int = 0) -> str:
        ran = run(place, without_beam, *line.split())
        assert ran.returncode == code, (line, ran.stderr)
        return ran.stdout

    people = "--attribute x --input people.csv --value-column x --user-column user --seed 1"
    done(f"perturb --study plain.yaml {people} --output in")
    done(f"perturb --study hours.yaml {people} --time-column at --output timed")
    for study, reports in (("plain", "in"), ("hours", "timed")):
        done(f"estimate --study {study}.yaml --input {reports}/* --output out/{study}")
    # Other formats, with records that are kept, and read again.
    record = {"user_id": "u", "attribute": "x", "service": "a", "payload": 0.5, "region": "n"}
    records = [{**record, "user_id": f"u{n}", "payload": (n % 10) / 10} for n in range(40)]
    bad = {**record, "attribute": "y"}
    (place / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*records, bad]))
    pq.write_table(pa.Table.from_pylist(records), place / "rows.parquet")
    done(
        "estimate --study grouped.yaml --input rows.jsonl --output kept --keep-bad-records "
        "--max-bad-fraction 1"
    )
    done("estimate --study plain.yaml --input rows.parquet --output parquet")
    done("estimate --study plain.yaml --again kept --output again --max-bad-fraction 1")
    done("stream --study hours.yaml --input timed/* --output streamed --stop-when-idle 1s")
    for line in ("show out/plain", "diff out/plain out/plain", "check out/plain mean>9", "dead-letters kept"):
        done(line)
    done("rollup --study hours.yaml --statistics out/hours/statistics/* --output rolled")
    done("plan --study plain.yaml --users 1000")
    done("explain --study plain.yaml")
    done("--completion bash")
    done("doctor")


@pytest.mark.parametrize(
    "options",
    ["--runner direct", "--runner flink --flink-master localhost:1", "--runner SparkRunner"]
    + ["--runner dataflow --project p --region r --temp-location gs://b/t"]
    + ["--runner direct --direct_num_workers=2"],
)
def test_what_needs_beam_says_so_in_one_sentence(
    options: str, place: Path, without_beam: dict[str, str]
) -> None:
    (place / "in.jsonl").write_text("")
    line = f"estimate --study plain.yaml --input in.jsonl --output out {options}"
    ran = run(place, without_beam, *line.split())
    assert (ran.returncode, ran.stderr) == (2, f"ldpbeam: {SENTENCE.format('estimate')}")
    assert not (place / "out").exists()


def test_an_option_that_is_unknown_here_may_be_one_of_beam(place: Path, without_beam: dict[str, str]) -> None:
    line = "estimate --study plain.yaml --input in.jsonl --output out"
    for option, said in (
        ("--outptu", "unknown option --outptu; did you mean --output?"),
        ("--sdk_worker_parallelism=2", "unknown option --sdk_worker_parallelism"),
    ):
        ran = run(place, without_beam, *line.split(), option)
        assert (ran.returncode, ran.stderr) == (2, f"ldpbeam: {said}\n")


def test_a_registry_needs_what_reads_kafka(place: Path, without_beam: dict[str, str]) -> None:
    (place / "blocked" / "requests.py").write_text("raise ImportError")
    line = "estimate --study plain.yaml --input in.jsonl --output out --schemas http://localhost:1"
    ran = run(place, without_beam, *line.split())
    said = "ldpbeam: --schemas: a registry of schemas needs requests: pip install 'ldpbeam[kafka]'\n"
    assert (ran.returncode, ran.stderr) == (2, said)


def test_the_doctor_of_an_engine_names_what_brings_it(place: Path, without_beam: dict[str, str]) -> None:
    code = "import importlib.metadata as m, sys\nold = m.version\n"
    code += "def version(name):\n    if name == 'apache-beam': raise m.PackageNotFoundError(name)\n"
    code += "    return old(name)\n"
    code += "m.version = version\nfrom ldpbeam.command_line.main import main\nsys.exit(main(sys.argv[1:]))\n"
    for runner, expected in (("local", 0), ("direct", 2), ("flink", 2), ("dataflow", 2)):
        command = [sys.executable, "-c", code, "doctor", "--runner", runner]
        ran = subprocess.run(command, cwd=place, env=without_beam, capture_output=True, text=True)
        assert (ran.returncode, ran.stderr) == (expected, ""), ran.stdout
        missing = "not here" if runner == "local" else "MISSING"
        assert f"{missing}  ldpbeam[beam]\n         pip install 'ldpbeam[beam]' for " in ran.stdout


def test_the_transforms_are_a_sentence_too(place: Path, without_beam: dict[str, str]) -> None:
    for program in ("import ldpbeam.beam", "import ldpbeam as ldp; ldp.beam.Estimate"):
        ran = subprocess.run(
            [sys.executable, "-c", program], cwd=place, env=without_beam, capture_output=True, text=True
        )
        assert ran.returncode == 1
        last = ran.stderr.splitlines()[-1]
        assert last == "ModuleNotFoundError: ldpbeam.beam needs Apache Beam: pip install 'ldpbeam[beam]'"
