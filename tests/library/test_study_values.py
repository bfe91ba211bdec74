"""A study from Python values: the same study as that of its YAML, and the same messages without lines."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import ldpbeam as ldp

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(ROOT.glob("examples/*/study.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_an_example_is_the_same_study_from_a_file_a_text_and_values(path: Path) -> None:
    # YAML 1.1 wants a point in a number with an exponent.
    text = path.read_text(encoding="utf-8").replace("1e-6", "1.0e-6")
    study = ldp.Study.from_yaml(path)
    assert study.fingerprint == ldp.Study.from_yaml(text).fingerprint
    assert study.fingerprint == ldp.Study.from_dict(yaml.safe_load(text)).fingerprint
    assert study.fingerprint == ldp.Study.from_yaml(str(path)).fingerprint


def attribute(**service: Any) -> dict[str, Any]:
    return {
        "domain": {"numeric": [0, 1]},
        "services": {"a": {"mechanism": "square_wave", "epsilon": 1.0, **service}},
        "estimates": {"e": {"estimator": "ems"}},
    }


def test_values_may_be_of_python_and_numpy() -> None:
    since = datetime(2026, 1, 1, tzinfo=UTC)
    versions = {"one": {"until": since, "epsilon": np.float64(2)}, "two": {"since": since}}
    study = ldp.Study.from_dict(
        {"study": "replaced", "attributes": {"x": attribute(versions=versions)}},
        study="given",
        windows={"size": timedelta(hours=1), "period": "20m"},
        events={"release": date(2026, 1, 2), "fix": since},
    )
    assert study.events == {"release": 1_767_312_000_000, "fix": since.timestamp() * 1000}
    assert study.name == "given"
    assert (study.windows.size, study.windows.period) == (3_600_000, 1_200_000)
    assert study.attributes["x"].services["a"].versions["two"].span.start == since.timestamp() * 1000
    assert [v.mechanism.epsilon for v in study.attribute("x").versions] == [2.0, 1.0]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            {"attributes": {"x": attribute(epsilon=0)}},
            r"^study: epsilon of service a of attribute x: .*found 0$",
        ),
        ({"attributes": {"x": attribute(mechanism="sqare")}}, r"^study: service a of attribute x: .*sqare"),
        (
            {"attributes": {"x": attribute()}, "window": {}},
            "study: window: unknown key; did you mean 'windows'",
        ),
        ({"attributes": {"x": {1}}}, "of type set; a study has mappings, lists, texts and numbers"),
        ({}, "attributes: "),
    ],
)
def test_a_mistake_is_named_with_its_place(values: Any, sentence: str) -> None:
    with pytest.raises(ldp.StudyError, match=sentence):
        ldp.Study.from_dict(values, study="mistaken")


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(ldp.StudyError, match=r"nowhere\.yaml: cannot be read"):
        ldp.Study.from_yaml("nowhere.yaml")
