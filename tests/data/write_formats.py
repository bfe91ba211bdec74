"""Write the files that one version's commands leave, for tests that read them for ever.

    python tests/data/write_formats.py tests/data/VERSION

The folder has a ``study.yaml`` and gets all else. What the files hold is written beside them as plain JSON,
by fastavro and without any code of ldpbeam.
"""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fastavro
import numpy as np

SCHEMAS = Path(__file__).parents[2] / "schemas"
FORMATS = ("avro", "parquet", "jsonl")
START = datetime(2026, 11, 20, 7, tzinfo=UTC)
PEOPLE = 24
ARRAYS = ("joint_cells", "joint_counts")


def write_people(folder: Path) -> dict[str, list[str]]:
    """A CSV file of values for each attribute; gives the options that name its columns."""
    rng = np.random.default_rng(41)
    common = [
        {
            "user": f"person-{number}",
            "left": (START + timedelta(minutes=5 * number)).isoformat(),
            "region": ("north", "south")[number % 2],
        }
        for number in range(PEOPLE)
    ]
    minutes = [{**row, "minutes": f"{180 * rng.beta(3, 5):.2f}"} for row in common]
    transport = [{**row, "transport": rng.choice(["car", "bus", "bike"])} for row in common]
    rating = [
        {**row, "film": film, "stars": rng.integers(1, 6)}
        for row in common
        for film in ("first", "second")[: rng.integers(1, 3)]
    ]
    for name, rows in (("minutes", minutes), ("transport", transport), ("rating", rating)):
        with (folder / f"{name}.csv").open("w", newline="") as stream:
            writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    return {
        "minutes": ["--value-column", "minutes"],
        "transport": ["--value-column", "transport"],
        "rating": ["--key-column", "film", "--value-column", "stars"],
    }


def ldpbeam(*arguments: object) -> None:
    """Run the command."""
    subprocess.run([sys.executable, "-m", "ldpbeam", *map(str, arguments)], check=True)


def records(path: Path) -> Iterator[Any]:
    """The records of an Avro file."""
    with path.open("rb") as stream:
        yield from fastavro.reader(stream)


def plain(record: dict[str, Any]) -> dict[str, Any]:
    """A snapshot's record with its arrays as lists of numbers."""
    return {
        **{name: value for name, value in record.items() if name != "sha256"},
        "histograms": [np.frombuffer(data, "<i8").tolist() for data in record["histograms"]],
        **{name: np.frombuffer(record[name], "<i8").tolist() for name in ARRAYS},
    }


def message() -> bytes:
    """A report as a client publishes it in Avro's single-object encoding."""
    schema = json.loads((SCHEMAS / "report.avsc").read_text(encoding="utf-8"))
    fingerprint = fastavro.schema.fingerprint(
        fastavro.schema.to_parsing_canonical_form(schema), "CRC-64-AVRO"
    )
    stream = io.BytesIO(b"\xc3\x01" + bytes.fromhex(fingerprint))
    stream.seek(0, io.SEEK_END)
    record = {"user_id": "person-0", "attribute": "minutes", "service": "maps", "payload": 0.5}
    fastavro.schemaless_writer(stream, schema, {**record, "event_time": 1000 * int(START.timestamp())})
    return stream.getvalue()


def write_json(path: Path, value: Any) -> None:
    """JSON, an entry a line."""
    lines = ",\n".join(json.dumps(entry, sort_keys=True) for entry in value)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def main(folder: Path) -> None:
    """Write every file of a version."""
    study, out = folder / "study.yaml", folder / "out"
    with tempfile.TemporaryDirectory() as name:
        people = Path(name)
        for attribute, columns in write_people(people).items():
            for kind in FORMATS:
                ldpbeam(
                    *("perturb", "--study", study, "--attribute", attribute, "--seed", 5, "--format", kind),
                    *("--input", people / f"{attribute}.csv", "--user-column", "user"),
                    *("--time-column", "left", "--group-column", "region", *columns),
                    *("--output", folder / "reports" / kind, "--overwrite"),
                )
    bad = folder / "reports" / "bad.jsonl"
    bad.write_text('{"attribute": "minutes", "service": "maps", "payload": 0.5}\n', encoding="utf-8")
    reports = [*sorted((folder / "reports" / "avro").iterdir()), bad]
    ldpbeam(
        *("estimate", "--study", study, "--input", *reports, "--output", out),
        *("--keep-bad-records", "--max-bad-fraction", 1, "--overwrite"),
    )
    snapshots = sorted((out / "statistics").iterdir())
    write_json(folder / "statistics.json", [plain(record) for path in snapshots for record in records(path)])
    letters = [record for path in (out / "dead_letters").iterdir() for record in records(path)]
    for letter in letters:
        letter["record"] = letter["record"].decode()
    write_json(folder / "dead_letters.json", letters)
    (folder / "message.bin").write_bytes(message())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
