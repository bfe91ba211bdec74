"""Tables of P(report | value): designs of surveys beside their published estimates, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ldpbeam as ldp
from ldpbeam.domains import Categories
from ldpbeam.mechanisms import build_mechanism

YES_NO = Categories(("yes", "no"))
THREE = Categories(("red", "green", "blue"))
#: The options of each design, its epsilon, and the share of yes by the formula of RRreg (Heck and Moshagen,
#: 2018) from the share of reports of 0, and with kuk from the mean number of red cards.
DESIGNS: dict[str, tuple[dict[str, Any], float, Callable[[float], float]]] = {
    "warner": ({"p": 0.8}, math.log(4), lambda seen: (seen + 0.8 - 1) / (2 * 0.8 - 1)),
    "crosswise": ({"p": 0.25}, math.log(3), lambda seen: (seen + 0.25 - 1) / (2 * 0.25 - 1)),
    "forced_response": ({"p": [1 / 12, 1 / 6]}, math.log(10), lambda seen: (seen - 1 / 12) / (1 - 3 / 12)),
    "kuk": ({"p": [0.7, 0.4], "draws": 2}, 2 * math.log(2), lambda seen: (seen / 2 - 0.4) / (0.7 - 0.4)),
    "unrelated": ({"p": [0.6, 0.3]}, math.log(0.72 / 0.12), lambda seen: (seen - 0.4 * 0.3) / 0.6),
}


def study_of(options: dict[str, Any], epsilon: float, domain: Any = ("yes", "no"), **keys: Any) -> ldp.Study:
    service = {"mechanism": "matrix", "epsilon": epsilon, **options}
    attribute = {"domain": {"categories": list(domain)}, "services": {"s": service}, **keys}
    return ldp.Study.from_dict(study="s", attributes={"a": attribute}, users="none")


@pytest.mark.parametrize("design", DESIGNS)
def test_unbiased_shares_are_those_of_the_published_formula(design: str) -> None:
    options, epsilon, share_of = DESIGNS[design]
    study = study_of({"design": design, **options}, epsilon, estimates={"all": {"estimator": "inversion"}})
    mechanism = study.attribute("a").versions[0].mechanism
    assert mechanism.epsilon == pytest.approx(epsilon)
    rng = np.random.default_rng(4)
    people = np.where(rng.random(5_000) < 0.3, "yes", "no")
    reports = ldp.Client(study, "a", "s", rng=rng).reports(people)
    sent = reports["payload"].to_numpy()
    # RRreg's weights of kuk are of the mean of cards; those of the table use what is not linear in it, too.
    mean = sent.mean() if design == "kuk" else (sent == 0).mean()
    found = ldp.estimate(study, reports).estimates[0].frequencies[0]
    assert found == pytest.approx(share_of(float(mean)), abs=0.01 if design == "kuk" else 1e-9)


def test_a_surveyed_share_widens_intervals_by_its_own_error() -> None:
    mechanism = build_mechanism("matrix", YES_NO, math.log(6), design="unrelated", p=[0.6, 0.3], surveyed=200)
    alone = build_mechanism("matrix", YES_NO, math.log(6), design="unrelated", p=[0.6, 0.3])
    counts = np.array([400, 600])
    more = mechanism.share_variances(np.array([0.4, 0.6]), counts) - alone.share_variances(
        np.array([0.4, 0.6]), counts
    )
    assert more / 1_000 == pytest.approx((0.4 / 0.6) ** 2 * 0.3 * 0.7 / 200)


def test_more_reports_than_values_tell_what_their_best_weights_tell() -> None:
    table = [[0.5, 0.1, 0.2], [0.2, 0.5, 0.2], [0.2, 0.2, 0.5], [0.1, 0.2, 0.1]]
    mechanism = build_mechanism("matrix", THREE, math.log(5), table=table)
    shares = np.array([0.5, 0.3, 0.2])
    counts = np.rint(1_000 * mechanism.probabilities @ shares).astype(int)
    assert mechanism.unbiased_frequencies(counts, int(counts.sum())) == pytest.approx(shares)
    said = mechanism.shares_of_reports().T
    even = mechanism.probabilities.mean(axis=1)
    other = np.linalg.pinv(mechanism.probabilities)
    assert (said**2 @ even).sum() < (other**2 @ even).sum()
    assert said.sum(axis=0) == pytest.approx(np.ones(4))


REFUSED: list[tuple[Categories, float, dict[str, Any], str]] = [
    (YES_NO, 1.0, {"design": "warner", "p": 0.8}, "the epsilon of this table is 1.38629, found 1"),
    (YES_NO, 2.0, {"design": "warner", "p": 0.8}, "the epsilon of this table is 1.38629, found 2"),
    (YES_NO, 1.0, {"design": "warner", "p": 0.5}, "reports do not tell no from yes"),
    (THREE, 1.1, {"table": [[0.6, 0.2, 0.2], [0.2, 0.6, 0.6], [0.2] * 3]}, "tell blue from green"),
    (THREE, 1.1, {"table": [[0.6, 0.3, 0.4], [0.4, 0.7, 0.6]]}, "tell blue from red and green"),
    (YES_NO, 1.0, {"table": [[1, 0.5], [0, 0.5]]}, "yes is never reported as 1, so a report of 1 reveals"),
    (YES_NO, 1.0, {"table": [[0.6, 0.3], [0.3, 0.7]]}, "the probabilities of yes sum to 0.9"),
    (YES_NO, 1.0, {"table": [[1.5, 0.3], [-0.5, 0.7]]}, "probabilities are from 0 to 1"),
    (YES_NO, 1.0, {"table": [[0.6, 0.3, 0.1]] * 2}, "with 2 numbers, one for each category"),
    (YES_NO, 1.0, {"table": "survey.csv"}, "table is a list for each report"),
    (THREE, 1.0, {"design": "kuk", "p": [0.6, 0.2]}, "design: kuk is for two categories, found 3"),
    (YES_NO, 1.0, {"design": "kuk", "p": 0.6}, "p of design: kuk is 2 numbers above 0 and below 1"),
    (YES_NO, 1.0, {"design": "simmons", "p": 0.6}, "design must be one of warner, crosswise"),
    (YES_NO, 1.0, {"design": "forced_response", "p": [0.6, 0.4]}, "less than 1 together"),
    (YES_NO, 1.0, {}, "give a table, or a design with its p"),
    (YES_NO, 1.39, {"design": "warner", "p": 0.8, "surveyed": 9}, "surveyed goes with design: unrelated"),
]


@pytest.mark.parametrize(("domain", "epsilon", "options", "said"), REFUSED, ids=[row[3] for row in REFUSED])
def test_a_table_that_is_not_what_the_study_claims_is_refused(
    domain: Categories, epsilon: float, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        build_mechanism("matrix", domain, epsilon, **options)


STUDY = """\
study: s
attributes:
  a:
    domain: {categories: ["yes", "no"]}
    services: {s: {mechanism: matrix, epsilon: 1.386, table: cards.csv}}
"""


def test_a_table_is_read_from_a_file_beside_the_study(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)
    (tmp_path / "cards.csv").write_text("report,no,yes\nred,0.2,0.8\nblack,0.8,0.2\n")
    study = ldp.Study.from_yaml(tmp_path / "study.yaml")
    assert study.attribute("a").versions[0].mechanism.probabilities.tolist() == [[0.8, 0.2], [0.2, 0.8]]
    # A copy of the study needs no file.
    assert ldp.Study.from_yaml(study.text + "\n").fingerprint == study.fingerprint


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file"),
        ("", "not a CSV file with a line for each report"),
        ("report,yes,maybe\n0,1,0\n", "the names of the study's categories"),
        ("report,yes,no\nred,0.8\n", "a number for each category"),
        ("report,yes,no\nred,a,b\n", "a number for each category"),
    ],
)
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, text: str | None, said: str) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)
    if text is not None:
        (tmp_path / "cards.csv").write_text(text)
    with pytest.raises(ldp.StudyError, match=f"cards.csv: .*{said}"):
        ldp.Study.from_yaml(tmp_path / "study.yaml")
