"""Files that ``ldpbeam perturb`` stamps are refused by a study that says otherwise.

What stamps say, and of which reports: tests/schemas/test_stamps, tests/transforms/test_validate.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ldpbeam.errors import UserError
from ldpbeam.inputs.files import check_stamps, find_input
from ldpbeam.schemas.encodings import avro_headers
from ldpbeam.schemas.reports import stamps
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.schemas.study.yaml_file import parse_study

STUDY = """\
study: stamped
attributes:
  x:
    domain: {numeric: [0, 10]}
    buckets: 8
    services: {a: {mechanism: piecewise, epsilon: 1.0}, b: {mechanism: binned, epsilon: 1.0, bins: 4}}
    estimates: {mean: {estimator: ivw, services: [a]}}
"""
OTHER = STUDY.replace("piecewise, epsilon: 1.0", "piecewise, epsilon: 0.5")


@pytest.fixture
def written(tmp_path: Path, simulate: Any, write_reports: Any) -> Any:
    """Writes what clients of a study send: (the study, the format); gives the files."""

    def write(text: str, kind: str, **options: Any) -> list[Path]:
        sent = simulate(parse_study(text), "x", [number / 20 for number in range(200)], seed=1, **options)
        paths: list[Path] = write_reports(tmp_path, sent, kind)
        return paths

    return write


def metadata_of(path: Path) -> dict[str, str]:
    if path.suffix == ".parquet":
        return {k.decode(): v.decode() for k, v in pq.read_schema(path).metadata.items()}
    with path.open("rb") as stream:
        return dict(avro_headers.read_header(stream).metadata)


def check(text: str, paths: list[Path], **options: bool) -> None:
    good = find_input(list(map(str, paths)), "stop").files
    check_stamps(good, parse_study(text), Columns(), **options)


@pytest.mark.parametrize("kind", ["avro", "parquet"])
def test_a_file_states_how_its_reports_were_made(written: Any, kind: str) -> None:
    attribute = parse_study(STUDY).attribute("x")
    for index, path in enumerate(written(STUDY, kind)):
        assert metadata_of(path) == {
            "ldpbeam.attribute": "x", "ldpbeam.service": "ab"[index], **stamps.stamp_of(attribute, index)
        }  # fmt: skip


@pytest.mark.parametrize("kind", ["avro", "parquet"])
def test_the_clients_study_takes_their_files_and_another_says_what_differs(written: Any, kind: str) -> None:
    paths = written(STUDY, kind)
    check(STUDY, paths)
    with pytest.raises(UserError) as caught:
        check(OTHER, paths)
    said = f"{paths[0]}: its stamp differs from the study's 'x' at a: epsilon 1.0 instead of 0.5"
    assert str(caught.value).splitlines()[0] == said
    with pytest.raises(
        UserError, match=f"{paths[0]}: its stamp differs from the study, and is not shown"
    ) as caught:
        check(OTHER, paths, hidden=True)
    assert "instead of" not in str(caught.value)
