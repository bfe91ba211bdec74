"""The transforms in Beam YAML, without Java."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import Any, get_args

import apache_beam as beam
import pyarrow.parquet as pq
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

import ldpbeam as ldp
from ldpbeam.beam import in_yaml

pytest.importorskip("docstring_parser", reason="Beam YAML is not installed: pip install 'ldpbeam[yaml]'")


def run(text: str, places: dict[str, Path | str]) -> None:
    from apache_beam.yaml.yaml_transform import expand_pipeline

    for name, place in places.items():
        text = text.replace(name, str(place))
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        expand_pipeline(pipeline, text)


def written(folder: Path, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table([*folder.glob(f"{name}-*")]).to_pylist()
    return found


NAMED = """\
pipeline:
  transforms:
    - type: Create
      config: {elements: [{uid: a, blob: 0}, {uid: b, blob: 1}, {uid: c, blob: 2}]}
    - type: LdpStatistics
      name: OfElements
      input: Create
      config: {study: STUDY, columns: {user_id: uid, payload: blob}}
    - type: LdpReadReports
      name: Read
      config: {study: STUDY, patterns: REPORTS, columns: {user_id: uid, payload: blob}}
    - type: LdpStatistics
      name: OfFiles
      input: {reports: Read.reports, dead_letters: Read.dead_letters, counts: Read.counts}
      config: {study: STUDY}
    - type: WriteToParquet
      input: OfElements.counts
      config: {path: OUT/elements}
    - type: WriteToParquet
      name: WriteOfFiles
      input: OfFiles.counts
      config: {path: OUT/files}
providers:
  - include: PROVIDERS
"""


def test_fields_may_have_other_names(tmp_path: Path) -> None:
    reports = tmp_path / "in.jsonl"
    reports.write_text("".join(f'{{"uid": "{user}", "blob": {place}}}\n' for place, user in enumerate("abc")))
    run(NAMED, {"PROVIDERS": ldp.beam.PROVIDERS, "STUDY": DRINKS, "REPORTS": reports, "OUT": tmp_path})
    for name in ("elements", "files"):
        found = {row["name"]: row["reports"] for row in written(tmp_path, name)}
        assert found == {
            "in": 3, "used": 2, "dead_letters": 1, "dead_letters_by_reason/payload_outside_mechanism": 1,
        }  # fmt: skip


#: A study of two categories, on one line.
DRINKS = (
    "{study: s, attributes: {x: {domain: {categories: [tea, rum]}, services: {a: {mechanism: grr, "
    "epsilon: 1.0}}, estimates: {e: {estimator: norm_sub}}}}}"
)
MADE_UP = """\
pipeline:
  transforms:
    - type: Create
      config: {elements: [{value: tea, who: a}, {value: rum, who: b}, {value: rum, who: c}]}
    - type: LdpPerturb
      input: Create
      config: {study: STUDY, user_id: who}
    - type: LdpStatistics
      input: LdpPerturb
      config: {study: STUDY}
    - type: WriteToParquet
      input: LdpStatistics.statistics
      config: {path: OUT/statistics}
providers:
  - include: PROVIDERS
"""


@pytest.mark.parametrize(("study", "users"), [(DRINKS, 3), (DRINKS[:-1] + ", users: none}", None)])
def test_a_study_may_stand_in_the_pipeline_and_values_are_perturbed(
    study: str, users: int | None, tmp_path: Path
) -> None:
    run(MADE_UP, {"PROVIDERS": ldp.beam.PROVIDERS, "STUDY": study, "OUT": tmp_path})
    (row,) = written(tmp_path, "statistics")
    assert (row["attribute"], row["reports"], row["users"]) == ("x", 3, users)


def test_a_key_is_named_by_its_file_and_arguments_have_types_that_yaml_can_write(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"k" * 15)
    key.chmod(0o600)
    with pytest.raises(ValueError, match=r"^user_id_key_file .*key: a key has 16 bytes or more, found 15"):
        in_yaml.LdpStatistics(study=f"{DRINKS}\n", user_id_key_file=str(key))
    key.write_bytes(b"k" * 16)
    named: Any = in_yaml.LdpStatistics(study=f"{DRINKS}\n", user_id_key_file=str(key))
    assert named.transform.disclosure.user_id_key == b"k" * 16
    for function, transform in (
        (in_yaml.LdpEstimate, ldp.beam.Estimate),
        (in_yaml.LdpPerturb, ldp.beam.Perturb),
    ):
        arguments = inspect.signature(function).parameters
        theirs = [name.replace("user_id_key_file", "user_id_key") for name in arguments]
        assert theirs == list(inspect.signature(transform).parameters)
        kinds = {kind for argument in arguments.values() for kind in get_args(argument.annotation)}
        assert not kinds & {ldp.Study, os.PathLike[str]}
