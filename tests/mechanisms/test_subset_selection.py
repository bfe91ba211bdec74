"""Subset selection: what a report is, how often a category is in it, and how much noise that leaves."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ldpbeam.answers.explain import explain
from ldpbeam.mechanisms import LocalHashing, OptimisedUnaryEncoding, RandomisedResponse, SubsetSelection
from ldpbeam.mechanisms.categories.subset_selection import saving
from ldpbeam.schemas.study.yaml_file import parse_study


def every_payload(mechanism: SubsetSelection) -> np.ndarray:
    width = mechanism.payload_dtype.itemsize
    return np.array([number.to_bytes(width, "little") for number in range(2 ** (8 * width))], f"V{width}")


@pytest.mark.parametrize(("size", "subset"), [(2, 1), (7, 3), (8, 7), (9, 2)])
def test_a_report_names_exactly_so_many_categories(size: int, subset: int) -> None:
    mechanism = SubsetSelection(1.0, size, subset)
    payloads = every_payload(mechanism)
    reports = payloads[mechanism.is_report(payloads)]
    assert len(reports) == mechanism.cells(0) == math.comb(size, subset)
    assert (mechanism.supported(reports).sum(axis=1) == subset).all()
    assert mechanism.bucketise(reports, 0).tolist() == list(range(len(reports)))


@pytest.mark.parametrize(("epsilon", "size", "subset"), [(0.5, 9, 0), (1.0, 9, 5), (2.0, 12, 0)])
def test_probabilities_and_variances_are_those_of_the_subsets(epsilon: float, size: int, subset: int) -> None:
    mechanism = SubsetSelection(epsilon, size, subset)
    payloads = every_payload(mechanism)
    named = mechanism.supported(payloads[mechanism.is_report(payloads)])
    # All subsets with a category are equally likely, and E times as likely as those without it.
    weights = np.where(named, math.exp(epsilon), 1.0)
    matrix = weights / weights.sum(axis=0)
    np.testing.assert_allclose(mechanism.channel(size, 0).dense(), matrix, rtol=1e-12)
    p, q = mechanism.support_probabilities
    np.testing.assert_allclose(named.T @ matrix, np.where(np.eye(size, dtype=bool), p, q), rtol=1e-12)
    said = (named - q) / (p - q)
    of_category = said[:, 0] ** 2 @ matrix - (said[:, 0] @ matrix) ** 2
    assert mechanism.frequency_variance == pytest.approx(of_category[1], rel=1e-12)
    assert mechanism.even_variance == pytest.approx(of_category.mean(), rel=1e-12)


@pytest.mark.parametrize(
    ("epsilon", "ratios"),
    [
        (1.0, {10: 0.77, 20: 0.88, 50: 0.95}),
        (2.0, {10: 1.0, 20: 0.80, 50: 0.91, 100: 0.95}),
        (3.0, {50: 0.82, 100: 0.90, 200: 0.95}),
        (4.0, {100: 0.91, 200: 0.87}),
    ],
)
def test_it_has_less_noise_than_the_best_other_mechanism(epsilon: float, ratios: dict[int, float]) -> None:
    for size, ratio in ratios.items():
        others = [
            kind(epsilon, size).even_variance
            for kind in (RandomisedResponse, LocalHashing, OptimisedUnaryEncoding)
        ]
        chosen = SubsetSelection(epsilon, size)
        assert chosen.even_variance / min(others) == pytest.approx(ratio, abs=0.006)
        least = min(SubsetSelection(epsilon, size, m).even_variance for m in range(1, size))
        assert chosen.even_variance < 1.001 * least
        assert saving(RandomisedResponse(epsilon, size)) == pytest.approx(
            1 - chosen.even_variance / others[0]
        )


@pytest.mark.parametrize(
    ("mechanism", "size", "named"),
    [("olh", 20, "12%"), ("oue", 20, "12%"), ("grr", 9, "24%"), ("grr", 5, ""), ("olh", 200, ""),
     ("subset_selection, subset: 1", 9, "24%"), ("subset_selection", 9, ""), ("block_hadamard", 20, ""),
     ("grr, lifetime_epsilon: 2", 9, "")],
)  # fmt: skip
def test_a_study_is_told_of_it_where_it_has_less_noise(mechanism: str, size: int, named: str) -> None:
    study = parse_study(
        f"study: s\nattributes: {{x: {{domain: {{categories: {size}}}, services: "
        f"{{a: {{mechanism: {mechanism}, epsilon: 1}}}}}}}}"
    )
    told = [sentence for sentence in explain(study) if "subset_selection`" in sentence]
    sentence = f"To service 'a': shares would have {named} less variance with `mechanism: subset_selection`."
    assert told == ([sentence] if named else [])


def test_one_category_in_a_report_is_grr() -> None:
    chosen, grr = SubsetSelection(1.0, 5), RandomisedResponse(1.0, 5)
    assert chosen.subset == 1
    assert chosen.support_probabilities == pytest.approx(grr.support_probabilities)
    assert saving(grr) == pytest.approx(0.0)
