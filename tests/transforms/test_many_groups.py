"""However many groups clients name, a fold has statistics of a bounded number of them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import ldpbeam as ldp
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.study import MOST_GROUPS
from ldpbeam.transforms.joining.join import at_most_groups, groups_merged
from ldpbeam.transforms.reports.validation import LONGEST_GROUP

STUDY = """
study: crowd
duplicates: {duplicates}
groups: {{field: city, at_most: 3}}
attributes:
  x:
    domain: {{numeric: [0, 1]}}
    services: {{pm: {{mechanism: piecewise, epsilon: 1.0}}}}
    estimates: {{mean: {{estimator: ivw}}}}
"""


def grouped(values: list[str | None], most: int, order: np.ndarray | None = None) -> dict[str | None, int]:
    given = [values[place] for place in (range(len(values)) if order is None else order)]
    encoded = pa.array(given, pa.string()).dictionary_encode(null_encoding="encode")
    codes, names = at_most_groups(
        encoded.indices.to_numpy().astype(np.int64), np.ones(len(given), bool), encoded.dictionary, most
    )
    return dict(Counter(names[int(code)].as_py() for code in codes))


def test_the_groups_with_the_most_reports_stay_whatever_the_order() -> None:
    values = ["a"] * 5 + ["b"] * 3 + ["c"] * 3 + ["d"] * 3 + [f"e{place}" for place in range(9)] + [None] * 2
    found = grouped(values, 3)
    (merged,) = {name for name in found if groups_merged(name)}
    assert merged is not None and groups_merged(merged) == 10
    assert {name: found[name] for name in found if name != merged} == {"a": 5, "b": 3, "c": 3, None: 2}
    assert found[merged] == 12
    for seed in range(5):
        assert grouped(values, 3, np.random.default_rng(seed).permutation(len(values))) == found
    assert grouped(values, 13) == dict(Counter(values))


def test_no_report_can_name_merged_groups() -> None:
    (merged,) = {name for name in grouped(["a", "b"], 0) if name}
    assert len(merged.encode()) > LONGEST_GROUP
    assert not groups_merged("merged groups/7") and not groups_merged(None)


@pytest.mark.parametrize("duplicates", ["drop", "keep"])
def test_a_group_for_each_report_is_counted_and_said(duplicates: str) -> None:
    people = MOST_GROUPS + 2_000
    cities = ["Paris"] * 50 + ["Rome"] * 40 + ["Bern"] * 30 + [f"c{place}" for place in range(people - 120)]
    reports = {
        "user_id": [f"u{place}" for place in range(people)],
        "payload": np.linspace(-1, 1, people),
        "city": cities,
    }
    found = ldp.estimate(parse_study(STUDY.format(duplicates=duplicates)), reports)
    by_group = {own.group: own for own in found.estimates}
    assert {name: own.reports for name, own in by_group.items()} == {
        "Paris": 50, "Rome": 40, "Bern": 30, None: people - 120,
    }  # fmt: skip
    assert by_group[None].other_groups == people - 120
    assert any(f"about {people - 120:,} groups" in text for text in by_group[None].warnings)
    assert not by_group["Paris"].warnings
