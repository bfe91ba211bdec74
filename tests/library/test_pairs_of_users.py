"""Pairs of attributes in the library: reports of the same users, and what a study may ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import ldpbeam as ldp
from ldpbeam.errors import UserError
from ldpbeam.library.tables import decoded_batches
from ldpbeam.pair_answer import PairAnswer
from ldpbeam.schemas.outputs.checked import fields_of, record_of
from ldpbeam.statistics import merge
from ldpbeam.transforms.reports.validation import checked_columns
from ldpbeam.transforms.tally import tally_of

PEOPLE = 6_000
ATTRIBUTES: dict[str, Any] = {
    "income": {
        "domain": {"numeric": [0, 100]},
        "buckets": 64,
        "services": {"app": {"mechanism": "square_wave", "epsilon": 3}},
    },
    "region": {
        "domain": {"categories": ["north", "south"]},
        "services": {"app": {"mechanism": "grr", "epsilon": 3}, "web": {"mechanism": "oue", "epsilon": 2}},
    },
    "age": {
        "domain": {"numeric": [0, 90]},
        "buckets": 64,
        "services": {"app": {"mechanism": "piecewise", "epsilon": 3}},
    },
}


def study_of(**changes: Any) -> ldp.Study:
    return ldp.Study.from_dict({
        "study": "s", "attributes": ATTRIBUTES, "pairs": {"both": ["income", "region"]}, **changes,
    })  # fmt: skip


def table(
    study: ldp.Study, attribute: str, service: str, users: Sequence[int], values: Any
) -> Mapping[str, Any]:
    """Reports of users, in the study's first version of a service."""
    known = study.attribute(attribute)
    mechanism = known.versions[known.versions_of([service])[0]].mechanism
    payloads = mechanism.perturb(np.asarray(values), np.random.default_rng([len(attribute), len(service)]))
    return {
        "user_id": [f"u{user}" for user in users],
        "attribute": attribute,
        "service": service,
        "payload": payloads if payloads.dtype.kind != "V" else [one.tobytes() for one in payloads],
    }


def people(study: ldp.Study) -> list[Mapping[str, Any]]:
    """Those in the south earn 30 more; the last tenth of people have no region, and ten users no income."""
    rng = np.random.default_rng(3)
    south = (rng.random(PEOPLE) < 0.4).astype(np.int64)
    income = np.clip(0.3 + 0.3 * south + 0.08 * rng.standard_normal(PEOPLE), 0, 1)
    most = PEOPLE * 9 // 10
    return [
        table(study, "income", "app", range(PEOPLE), income),
        table(study, "region", "app", range(most // 2), south[: most // 2]),
        table(study, "region", "web", range(most // 3, most), south[most // 3 : most]),
        table(study, "region", "web", range(PEOPLE, PEOPLE + 10), [0] * 10),
    ]


def test_a_pair_is_of_the_users_who_reported_both() -> None:
    study = study_of()
    estimates = ldp.estimate(study, people(study))
    record = estimates.only(attribute="both")[0]
    assert record.users == PEOPLE * 9 // 10
    assert estimates.counts["used"] == estimates.counts["in"]
    pair = record.pair
    assert pair is not None and pair.p_value < 1e-12 and pair.correlation is None
    assert [axis.attribute for axis in pair.axes] == ["income", "region"]
    by_region = pair.given[1]
    assert by_region.given.categories == ("north", "south")
    for low, mean, high in zip(by_region.means.low, (30, 60), by_region.means.high, strict=True):
        assert low < mean < high < low + 12
    assert sum(pair.table) == pytest.approx(1.0)
    assert "mutual information" in estimates.summary()
    rows = estimates.to_arrow("pairs").to_pylist()
    known = {"of": "income", "given": "region", "group_of_given": "south", "number": "mean"}
    (south,) = (row for row in rows if known.items() <= row.items())
    assert south["value"] == by_region.means.value[1] and len(rows) == 2 + 2 + 2 * 2 * 8
    titles = [figure["title"] for figure in estimates.plot().to_dict()["vconcat"]]
    assert {"income and region of the same people", "income by region"} <= set(titles)
    assert record_of(PairAnswer, fields_of(pair)) == pair


def test_three_attributes_are_three_pairs() -> None:
    study = study_of(pairs={"all": ["income", "region", "age"]})
    assert [name for name in study.compiled if study.is_pair(name)] == [
        "all.income_region", "all.income_age", "all.region_age",
    ]  # fmt: skip


def test_statistics_of_pairs_merge() -> None:
    study = study_of()
    tables = people(study)

    def statistic(chosen: Any) -> Any:
        kept = []
        for part in tables:
            rows = [row for row, user in enumerate(part["user_id"]) if chosen(int(user[1:]))]
            columns = {name: [part[name][row] for row in rows] for name in ("user_id", "payload")}
            kept.append({**part, **columns})
        tally = tally_of(study, decoded_batches(kept, checked_columns(study, None, None)))
        return next(one.statistic for one in tally.snapshots if one.attribute == "both")

    whole = statistic(lambda user: True)
    assert merge([statistic(lambda user: user % 3 == 0), statistic(lambda user: user % 3 > 0)]) == whole


def test_means_are_of_the_values_and_not_of_their_logarithms() -> None:
    grr = {"services": {"app": {"mechanism": "grr", "epsilon": 6}}}
    wave = {"services": {"app": {"mechanism": "square_wave", "epsilon": 6}}}
    attributes = {
        "pay": {"domain": {"numeric": [1, 10_000], "scale": "log"}, "buckets": 64, **wave},
        "side": {"domain": {"categories": ["left", "right"]}, **grr},
    }
    study = study_of(attributes=attributes, pairs={"both": ["pay", "side"]})
    rng = np.random.default_rng(6)
    right = rng.integers(0, 2, 4_000)
    logs = np.clip(0.4 + 0.3 * right + 0.05 * rng.standard_normal(4_000), 0, 1)
    tables = [
        table(study, "pay", "app", range(4_000), logs),
        table(study, "side", "app", range(4_000), right),
    ]
    pair = ldp.estimate(study, tables).only(attribute="both")[0].pair
    assert pair.given[1].means.value[1] == pytest.approx((10_000.0**logs)[right == 1].mean(), rel=0.15)


def test_counts_of_pairs_are_those_of_reports() -> None:
    grr = {"services": {"app": {"mechanism": "grr", "epsilon": 1}}}
    attributes = {
        "region": {"domain": {"categories": ["north", "south"]}, **grr},
        "party": {"domain": {"categories": ["red", "blue", "green"]}, **grr},
    }
    study = study_of(attributes=attributes, pairs={"both": ["region", "party"]})
    values = np.random.default_rng(5).integers(0, 2, 900)
    tables = [table(study, name, "app", range(900), values) for name in attributes]
    seen, counts = np.unique(np.stack([one["payload"] for one in tables]), axis=1, return_counts=True)
    counted = {"attribute": "both", "region/app": seen[0], "party/app": seen[1], "count": counts}
    found, wanted = (
        next(each for each in estimates if each.pair)
        for estimates in (ldp.estimate(study, counts=counted), ldp.estimate(study, tables))
    )
    assert found.pair == wanted.pair and found.users == 900


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"pairs": {"both": ["income", "county"]}}, "there is no attribute 'county'"),
        ({"pairs": {"both": ["income", "income"]}}, "name each attribute once"),
        ({"pairs": {"age": ["income", "region"]}}, "an attribute has this name"),
        ({"pairs": {"both": ["income"]}}, "name two attributes"),
        ({"duplicates": "keep"}, "duplicates: drop"),
        ({"windows": {"size": "1h", "joined": "2h"}}, "windows.joined"),
    ],
)  # fmt: skip
def test_pairs_that_cannot_be(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises((UserError, ValueError), match=problem):
        study_of(**changes)


def test_the_ledger_has_no_entry_of_a_pair() -> None:
    study = study_of(epsilon_cap=10)
    assert "both" not in {entry.attribute for entry in _ledger(study)}


def _ledger(study: ldp.Study) -> Any:
    from ldpbeam.answers.ledger import Ledger

    ledger = Ledger(study)
    ledger.add(tally_of(study, decoded_batches(people(study), checked_columns(study, None, None))).snapshots)
    return [entry for entry, _ in ledger.alike()]
