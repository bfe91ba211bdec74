"""A field with almost the right name: the dead letter says which one is meant, in every format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

GOOD = {"userid": "ann", "attribute": "x", "service": "a", "payload": 0.5}
AVRO = {"userid": "string", "attribute": "string", "service": "string", "payload": "double"}


def written(folder: Path, kind: str) -> Path:
    path = folder / f"reports.{kind}"
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist([GOOD] * 3), path)
    elif kind == "avro":
        fields = [{"name": name, "type": own} for name, own in AVRO.items()]
        with path.open("wb") as stream:
            fastavro.writer(stream, {"type": "record", "name": "R", "fields": fields}, [GOOD] * 3)
    else:
        line = '{"userid": "ann", "attribute": "x", "service": "a", "payload": 0.5}\n'
        # Lines that are right do not hide the mistake, nor do lines of other types.
        right = line.replace("userid", "user_id").replace("ann", "bob")
        path.write_text(
            3 * line if kind == "jsonl" else right + 3 * line + right + '{"userid": 7, "payload": "q"}\n'
        )
    return path


@pytest.mark.parametrize("kind", ["parquet", "avro", "jsonl", "mixed.jsonl"])
def test_the_field_that_is_meant_is_named(
    kind: str, tmp_path: Path, run_estimate: Any, small_text: str
) -> None:
    found = run_estimate(tmp_path, small_text, [written(tmp_path, kind)], "--max-bad-fraction", 1)
    assert found.code == 0, found.err
    assert {(own["reason"], own["detail"]) for own in found.dead_letters} == {
        ("no_user_id", "the record has 'userid'; did you mean 'user_id'?")
    }
    assert len(found.dead_letters) == (4 if kind == "mixed.jsonl" else 3)
