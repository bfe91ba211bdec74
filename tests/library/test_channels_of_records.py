"""Reports that say by themselves which channel they came through, beside a client and counts written here."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ldpbeam as ldp
from ldpbeam.library.tables import decoded_batches
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.reports.validation import checked_columns
from ldpbeam.transforms.tally import tally_of

STUDY = """\
study: navigation
attributes:
  confidence:
    domain: {categories: [low, high]}
    services: {browser: {mechanism: grr, rate: {field: randomizedTriggerRate, values: [0.5, 0.25, 0.1]}}}
publish: {at_least: 1}
"""
PEOPLE, HIGH = 20_000, 0.3


def sent(rng: np.random.Generator, rates: np.ndarray[Any, Any]) -> pa.Table:
    """Of people with a rate each: a coin instead of the truth, as often as the rate says."""
    truth = rng.random(len(rates)) < HIGH
    payloads = np.where(rng.random(len(rates)) < rates, rng.random(len(rates)) < 0.5, truth)
    return pa.table(
        {
            "user_id": pa.array([f"person {index}" for index in range(len(rates))]),
            "attribute": pa.repeat("confidence", len(rates)),
            "service": pa.repeat("browser", len(rates)),
            "randomizedTriggerRate": rates,
            "payload": payloads.astype(np.int64),
        }
    )


def test_each_rate_has_the_channel_of_its_epsilon_and_reports_of_another_one_are_dead_letters() -> None:
    rates = np.random.default_rng(1).choice([0.5, 0.25, 0.1, 0.3], PEOPLE)
    reports = sent(np.random.default_rng(2), rates)
    study = parse_study(STUDY)
    confidence = study.attribute("confidence")
    assert [version.mechanism.epsilon for version in confidence.versions] == pytest.approx(
        [math.log(2.0 / rate - 1.0) for rate in (0.5, 0.25, 0.1)], rel=1e-14
    )
    estimates = ldp.estimate(study, reports)
    (snapshot,) = tally_of(study, decoded_batches(reports, checked_columns(study, None, None))).snapshots
    high = reports["payload"].to_numpy()
    for index, rate in enumerate((0.5, 0.25, 0.1)):
        of_rate = high[rates == rate]
        assert snapshot.statistic.histograms[index].tolist() == [len(of_rate) - of_rate.sum(), of_rate.sum()]
    assert estimates.dead_letters["row"].to_pylist() == np.flatnonzero(rates == 0.3).tolist()
    assert set(estimates.dead_letters["reason"].to_pylist()) == {"unknown_channel"}


def test_a_client_of_a_channel_says_it_in_its_reports() -> None:
    client = ldp.Client(parse_study(STUDY), "confidence", "browser", version="rate=0.25")
    assert client.report("low", "someone")["randomizedTriggerRate"] == "0.25"


@pytest.mark.parametrize(("stated", "real"), [(1.0, 1.32), (2.0, 2.14), (3.0, 3.06)])
def test_who_draws_from_all_categories_has_the_epsilon_of_what_the_reports_reveal(
    stated: float, real: float
) -> None:
    # A click on one of 100 items is kept with probability e^eps/(e^eps + 99), or else drawn from all of them.
    keep = math.exp(stated) / (math.exp(stated) + 99.0)
    own, other = keep + (1.0 - keep) / 100.0, (1.0 - keep) / 100.0
    study = STUDY[: STUDY.index("domain")] + (
        "domain: {categories: 100}\n"
        f"    services: {{tab: {{mechanism: grr, epsilon: {stated}, replacement: any}}}}\n"
    )
    (version,) = parse_study(study).attribute("confidence").versions
    assert version.mechanism.epsilon == pytest.approx(real, abs=0.005)
    channel = version.mechanism.channel(100, 100).dense()
    assert channel[:2, 0] == pytest.approx([own, other], rel=1e-12)


@pytest.mark.parametrize(
    ("permanent", "instant"),
    [
        ((0.75, 0.25), (0.75, 0.5)),  # RAPPOR with f = 0.5, q = 0.75 and p = 0.5
        ((0.5, 1.0 / (math.e**2 + 1.0)), (0.5, 0.1)),  # L_OUE, OUE after OUE
        ((0.731, 0.269), (0.5, 0.2)),  # L_SOUE, OUE after SUE
    ],
)
def test_two_steps_on_bits_have_the_channel_of_both(
    permanent: tuple[float, float], instant: tuple[float, float]
) -> None:
    own, other = (bit * instant[0] + (1.0 - bit) * instant[1] for bit in permanent)
    study = STUDY[: STUDY.index("domain")] + (
        "domain: {categories: 3}\n"
        f"    services: {{tab: {{mechanism: oue, own: {own!r}, other: {other!r}}}}}\n"
    )
    (version,) = parse_study(study).attribute("confidence").versions
    assert version.mechanism.epsilon == pytest.approx(math.log(own / (1 - own) * (1 - other) / other))
    # Each of the eight reports that a person of category 0 may send, by both steps.
    sent_by = [
        math.prod((bit if set_ else 1.0 - bit) for bit, set_ in zip((own, other, other), bits, strict=True))
        for bits in ((cell & 1, cell >> 1 & 1, cell >> 2) for cell in range(8))
    ]
    assert version.mechanism.channel(3, 3).dense()[:, 0] == pytest.approx(sent_by, rel=1e-12)
