"""Files that ``ldpbeam perturb`` stamps are refused by a study that says otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ldpbeam.schemas.files import avro_headers
from ldpbeam.schemas.messages.decode import Message, decode_messages
from ldpbeam.schemas.reports import stamps
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.schemas.study.yaml_file import parse_study

STUDY = """\
study: stamped
attributes:
  x:
    domain: {numeric: [0, 10]}
    buckets: 8
    services:
      a: {mechanism: piecewise, epsilon: 1.0}
      b: {mechanism: binned, epsilon: 1.0, bins: 4}
    estimates:
      mean: {estimator: ivw, services: [a]}
"""
DATED = """\
study: dated
attributes:
  x:
    domain: {numeric: [0, 10]}
    buckets: 8
    services:
      a:
        mechanism: piecewise
        versions:
          first: {epsilon: 1.0, until: "2026-01-01T00:00:00Z"}
          second: {epsilon: 2.0, since: "2026-01-01T00:00:00Z"}
      app: {mechanism: piecewise, version_field: build, versions: {old: {epsilon: 1.0}, new: {epsilon: 2.0}}}
    estimates:
      mean: {estimator: ivw}
"""


@pytest.fixture
def perturbed(
    tmp_path: Path, command: Callable[..., Any], make_people: Callable[..., Path]
) -> Callable[..., list[Path]]:
    """Runs the command: gives the files that it wrote."""

    def run(study: str, *options: object) -> list[Path]:
        people = make_people(tmp_path / "people.csv", np.linspace(0, 10, 200))
        (tmp_path / "sent.yaml").write_text(study)
        ran = command(
            "perturb", "--study", tmp_path / "sent.yaml", "--attribute", "x", "--input", people, "--seed", 1,
            "--value-column", "value", "--output", tmp_path / "reports", *options,
        )  # fmt: skip
        assert ran.code == 0, ran.err
        return sorted((tmp_path / "reports").glob("*"))

    return run


def metadata_of(path: Path) -> dict[str, str]:
    if path.suffix == ".parquet":
        return {k.decode(): v.decode() for k, v in pq.read_schema(path).metadata.items()}
    with path.open("rb") as stream:
        return dict(avro_headers.read_header(stream).metadata)


@pytest.mark.parametrize("kind", ["avro", "parquet"])
def test_a_file_states_how_its_reports_were_made(perturbed: Callable[..., Any], kind: str) -> None:
    attribute = parse_study(STUDY).attribute("x")
    for index, path in enumerate(perturbed(STUDY, "--format", kind)):
        assert metadata_of(path) == {
            "ldpbeam.attribute": "x", "ldpbeam.service": "ab"[index], **stamps.stamp_of(attribute, index)
        }  # fmt: skip


def test_the_study_of_the_clients_reads_their_files(
    perturbed: Callable[..., Any], run_estimate: Callable[..., Any], tmp_path: Path
) -> None:
    found = run_estimate(tmp_path / "run", STUDY, perturbed(STUDY, "--format", "parquet"))
    assert (found.code, found.err, found.accounting["used"]) == (0, "", 400)


# What else may differ: tests/schemas/test_stamps.
@pytest.mark.parametrize("kind", ["avro", "parquet"])
def test_another_study_refuses_the_file_and_says_what_differs(
    perturbed: Callable[..., Any], run_estimate: Callable[..., Any], tmp_path: Path, kind: str
) -> None:
    other = STUDY.replace("piecewise, epsilon: 1.0", "piecewise, epsilon: 0.5")
    paths = perturbed(STUDY, "--format", kind)
    found = run_estimate(tmp_path / "run", other, paths, "--on-bad-file", "skip")
    assert found.code == 2
    said = (
        f"x.a.00000-of-00001.{kind}: its stamp differs from the study's 'x' at a: epsilon 1.0 instead of 0.5"
    )
    assert said in found.err
    assert not list(found.path.glob("*"))


def test_a_stamp_is_not_shown_where_a_key_hides_the_input(
    perturbed: Callable[..., Any], run_estimate: Callable[..., Any], tmp_path: Path
) -> None:
    paths = perturbed(STUDY)
    (tmp_path / "key").write_bytes(b"0123456789abcdef")
    (tmp_path / "key").chmod(0o600)
    other = STUDY.replace("epsilon: 1.0, bins", "epsilon: 0.75, bins")
    found = run_estimate(tmp_path / "run", other, paths, "--user-id-key-file", tmp_path / "key")
    assert found.code == 2
    assert "x.b.00000-of-00001.avro: its stamp differs from the study, and is not shown" in found.err
    assert "instead of" not in found.err


def test_json_lines_have_no_stamp_and_are_read(
    perturbed: Callable[..., Any], run_estimate: Callable[..., Any], tmp_path: Path
) -> None:
    other = STUDY.replace("piecewise, epsilon: 1.0", "piecewise, epsilon: 0.9")
    found = run_estimate(tmp_path / "run", other, perturbed(STUDY, "--format", "jsonl"))
    # The wider range of the study has room for all of them; only the test of fit can notice.
    assert found.code == 0
    assert found.accounting["used"] == 400


def test_versions_by_time_share_a_file_without_a_stamp_and_versions_by_a_field_have_one(
    perturbed: Callable[..., Any], run_estimate: Callable[..., Any], tmp_path: Path
) -> None:
    options = ("--start", "2025-12-31T23:30:00Z", "--spread", "1h", "--versions", "app=new")
    dated, app = perturbed(DATED, *options)
    assert metadata_of(dated) == {"ldpbeam.attribute": "x", "ldpbeam.service": "a"}
    assert metadata_of(app)["ldpbeam.epsilon"] == "2.0"
    found = run_estimate(tmp_path / "run", DATED, [dated, app])
    assert (found.code, found.accounting["used"]) == (0, 400)


def test_a_report_of_a_service_of_its_own_in_a_stamped_file_is_a_dead_letter(
    perturbed: Callable[..., Any], run_estimate: Callable[..., Any], tmp_path: Path
) -> None:
    first = perturbed(STUDY, "--format", "parquet")[0]
    table = pq.read_table(first)
    services = pa.array(["a"] * 150 + ["b"] * 50)
    pq.write_table(table.append_column("service", services), tmp_path / "mixed.parquet")
    found = run_estimate(tmp_path / "run", STUDY, [tmp_path / "mixed.parquet"])
    assert found.code == 3
    assert found.accounting["dead_letters_by_reason"] == {"other_stamp": 50}
    assert found.accounting["used"] == 150


def test_a_container_in_a_message_keeps_its_stamp(perturbed: Callable[..., Any]) -> None:
    path = perturbed(STUDY, "--format", "avro")[0]
    message = Message("7", path.read_bytes(), "application/avro")
    (batch,) = decode_messages([message], Columns())
    assert isinstance(batch, pa.RecordBatch)
    found = {key.decode(): text.decode() for key, text in batch.schema.metadata.items()}
    assert stamps.entries_in(found) == stamps.stamp_of(parse_study(STUDY).attribute("x"), 0)
