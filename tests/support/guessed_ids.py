"""Inputs of people whose ids can be guessed, and the search for what would tell of them."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro

from ldpbeam.transforms.reports.record_texts import record_bytes

START = 1_795_168_800_000  # 2026-11-20T10:00:00Z
IDS = [f"person.{number}@example.org" for number in range(12)]


def report(user: str, **changes: Any) -> dict[str, Any]:
    given = {"user_id": user, "attribute": "x", "service": "a", "event_time": START, "payload": 0.5}
    return {name: value for name, value in (given | changes).items() if value is not None}


def bad_lines() -> list[bytes]:
    """One line for every reason of a record's own, each of somebody whose id can be guessed."""
    records = [
        report(IDS[0] * 20), report(IDS[2], attribute=IDS[2]), report(IDS[3], service=None),
        report(IDS[4], service=IDS[4]), report(IDS[5], event_time=None), report(IDS[6], payload=None),
        report(IDS[7], payload=IDS[7]), report(IDS[8], payload=99.5),
        report("", user_id=None, report_id=IDS[9]),
    ]  # fmt: skip
    return [*(json.dumps(record).encode() for record in records), IDS[10].encode(), f'"{IDS[11]}"'.encode()]


REASONS = {
    "user_id_too_long", "unknown_attribute", "no_service", "unknown_service", "no_event_time",
    "no_payload", "payload_not_a_number", "payload_outside_mechanism", "no_user_id", "not_json",
}  # fmt: skip


def guesses(files: list[Path]) -> Iterator[bytes]:
    """What somebody who guesses ids, lines or whole files would look for."""
    known: list[bytes] = [user.encode() for user in IDS]
    known += [user.encode().hex().encode() for user in IDS]
    for path in files:
        data = path.read_bytes()
        for line in (gzip.decompress(data) if path.suffix == ".gz" else data).split(b"\n"):
            known += [line, line + b"\n"] if line else []
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                # As dead letters hold records: ids are bytes, which they write as hexadecimal digits.
                raw = {**record, "user_id": record["user_id"].encode()} if "user_id" in record else record
                report_id = {"report_id": record["report_id"].encode()} if "report_id" in record else {}
                known += [record_bytes(record), record_bytes({**raw, **report_id})]
        known.append(path.read_bytes())
    for text in known:
        if len(text) >= 8:
            yield text
        for algorithm in ("sha256", "sha1", "md5", "sha512", "blake2b"):
            digest = hashlib.new(algorithm, text)
            yield digest.digest()
            yield digest.hexdigest().encode()


def written_in(folder: Path) -> bytes:
    """All bytes of a folder's files and of their names, those inside compressed Avro blocks too."""
    parts = []
    for path in sorted(folder.rglob("*")):
        parts.append(str(path.relative_to(folder)).encode())
        if not path.is_file():
            continue
        data = path.read_bytes()
        parts.append(data)
        if path.suffix == ".avro":
            with path.open("rb") as stream:
                parts += [block.bytes_.getvalue() for block in fastavro.block_reader(stream)]
    return b"\n".join(parts)


def write_inputs(folder: Path) -> Path:
    """Files with every kind of dead letter, and one good report."""
    folder.mkdir()
    (folder / "bad.jsonl").write_bytes(
        b"\n".join([json.dumps(report("fine")).encode(), *bad_lines()]) + b"\n"
    )
    (folder / "bad.jsonl.gz").write_bytes(gzip.compress(b"{}\n" + b"\n".join(bad_lines())))
    # A header whose schema is somebody's id, and text that is no file of reports.
    (folder / "header.avro").write_bytes(
        b"Obj\x01\x02\x16avro.schema\x38" + IDS[0].encode().ljust(28) + b"\x00" * 17
    )
    (folder / "note.txt").write_text(IDS[1])
    (folder / "footer.parquet").write_bytes(b"PAR1" + IDS[2].encode() * 3 + b"\x10\x00\x00\x00PAR1")
    return folder


def looked_through(said: str, output: Path, inputs: Path) -> list[bytes]:
    """The guesses that stand somewhere in what a run said or wrote."""
    found = said.encode() + written_in(output)
    return [guess for guess in guesses(sorted(inputs.iterdir())) if guess in found]
