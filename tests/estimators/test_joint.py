"""ULE against a loop over users, in all its forms, and at its limits."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import special
from support.joint_forms import FORMS, take_form
from support.joint_users import ask, brute_force, iterate

from ldpbeam import Attribute, Categories, Numeric, ServiceVersion
from ldpbeam.estimators import Question, estimate
from ldpbeam.estimators.joint_likelihood import JointLikelihood
from ldpbeam.estimators.ule import information_kept
from ldpbeam.mechanisms import (
    HadamardRandomisedResponse,
    Laplace,
    LocalHashing,
    Mechanism,
    OptimisedUnaryEncoding,
    Piecewise,
    RandomisedResponse,
    SquareWave,
    StochasticRounding,
)
from ldpbeam.statistics import Answers, tally

BUCKETS = 8
UNIT = Numeric(0.0, 1.0)
FOUR = Attribute(
    "x",
    UNIT,
    buckets=BUCKETS,
    versions=(
        ServiceVersion("sr", "", StochasticRounding(1.0)),
        ServiceVersion("laplace", "", Laplace(2.0)),
        ServiceVersion("pm", "old", Piecewise(1.0)),
        ServiceVersion("pm", "new", Piecewise(3.0)),
        ServiceVersion("sw", "", SquareWave(1.5)),
    ),
    joint_services=("sr", "laplace", "pm", "sw"),
    joint_buckets=5,
)


COLOURS = Attribute(
    "colour",
    Categories(tuple("abcdef")),
    buckets=256,
    versions=(
        ServiceVersion("grr", "", RandomisedResponse(1.0, size=6)),
        ServiceVersion("olh", "old", LocalHashing(0.5, size=6, seeds=16)),
        ServiceVersion("olh", "new", LocalHashing(1.5, size=6, seeds=32)),
        ServiceVersion("oue", "", OptimisedUnaryEncoding(1.0, size=6)),
        ServiceVersion("hadamard", "", HadamardRandomisedResponse(1.0, size=6)),
    ),
    joint_services=("grr", "olh", "oue", "hadamard"),
    joint_buckets=2,
)
SHARES = np.array([0.4, 0.25, 0.2, 0.1, 0.05, 0.0])


@pytest.mark.parametrize(
    ("attribute", "smoothing"), [(FOUR, False), (FOUR, True), (COLOURS, True)], ids=["em", "ems", "colours"]
)
@pytest.mark.parametrize("chosen", [(0, 1, 2, 3), (2, 0), (3, 1), (1,), (3,)], ids=str)
def test_ule_equals_a_loop_over_users(attribute: Attribute, chosen: tuple[int, ...], smoothing: bool) -> None:
    users, services = 80, [attribute.services[place] for place in chosen]
    answers = ask(attribute, users, 1, shares=SHARES if attribute is COLOURS else None)
    found = iterate(attribute, tally(attribute, users, answers), services, 15, smoothing)
    # Categories are not smoothed.
    weights, _ = brute_force(attribute, users, answers, services, 15, smoothing and attribute is FOUR)
    np.testing.assert_allclose(found.distribution, weights, atol=1e-12)
    asked = [attribute.versions[answer.version].service in services for answer in answers]
    rows = [answer.rows for answer, one in zip(answers, asked, strict=True) if one]
    assert found.users == len(np.unique(np.concatenate(rows)))
    assert found.reports == sum(map(len, rows))


def test_at_any_resolution_categories_keep_all_of_their_information() -> None:
    found = estimate("ule", COLOURS, tally(COLOURS, 300, ask(COLOURS, 300, 4, 1.0, SHARES)))
    kept = found.details["information_kept"]
    assert kept == pytest.approx(
        dict.fromkeys(("grr", "olh@old", "olh@new", "oue", "hadamard"), 1.0), abs=1e-12
    )


def test_the_joint_histogram_has_a_cell_for_every_report_and_none() -> None:
    # 6 categories; 16 seeds of 3 hashes and 32 of 5; 64 bit vectors; 8 rows of two signs; each one more.
    assert COLOURS.joint_shape == (7, 1 + 16 * 3 + 32 * 5, 65, 17)
    for service, axis in zip(COLOURS.joint_services, COLOURS.joint_shape, strict=True):
        rows = COLOURS.joint_likelihood(service, np.arange(axis))
        assert rows[0].tolist() == [1.0] * 6
        np.testing.assert_allclose(rows[1:].sum(axis=0), len(COLOURS.versions_of([service])), rtol=1e-12)


@pytest.mark.parametrize("services", [("sr", "laplace", "pm", "sw"), ("laplace",)], ids=len)
@pytest.mark.parametrize("form", FORMS)
def test_all_forms_of_the_product_agree(
    form: str, services: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    users = 300
    answers = ask(FOUR, users, 2)
    statistic = tally(FOUR, users, answers)
    take_form(form, BUCKETS, monkeypatch)
    products, (kind, off) = JointLikelihood(Question(FOUR, statistic, services)).products, FORMS[form]
    assert isinstance(products, kind)
    found = iterate(FOUR, statistic, services, 20)
    weights, trace = brute_force(FOUR, users, answers, services, 20, True)
    np.testing.assert_allclose(found.distribution, weights, atol=off)
    np.testing.assert_allclose(found.log_likelihoods, trace, rtol=off)
    # The backward product is the transpose of the forward one.
    rng = np.random.default_rng(3)
    values, ratios = rng.random(BUCKETS), rng.random(len(products.log_scales))
    there, back = ratios @ products.forward(values), products.backward(ratios) @ values
    assert there == pytest.approx(back, rel=off)


@pytest.mark.parametrize(
    "mechanism", [SquareWave(1.0), Piecewise(1.0), Laplace(1.0), StochasticRounding(1.0)]
)
def test_one_service_at_the_same_resolution_is_ems(mechanism: Mechanism) -> None:
    versions = (ServiceVersion("s", "", mechanism),)
    attribute = Attribute("x", UNIT, 16, versions, joint_services=("s",), joint_buckets=16)
    statistic = tally(attribute, 5000, ask(attribute, 5000, 4, answering=0.9))
    alone, joined = (estimate(name, attribute, statistic) for name in ("ems", "ule"))
    np.testing.assert_allclose(joined.distribution, alone.distribution, atol=1e-10)
    np.testing.assert_allclose(joined.log_likelihoods, alone.log_likelihoods, rtol=1e-12)
    assert joined.n_iterations == alone.n_iterations > 2
    assert (joined.users, joined.reports) == (alone.users, alone.reports)
    assert 0 < joined.users < 5000


@pytest.mark.parametrize(
    "order", [[0, 1] * 19 + [1], [0] * 19 + [1] * 20], ids=["alternating", "one after the other"]
)
@pytest.mark.parametrize("form", FORMS)
def test_products_over_39_services_do_not_underflow(
    order: list[int], form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One user who told 39 services, all nearly without noise, now one category and now the other.

    3^39 is just below 2^62, so the index of a cell is one word.
    """
    take_form(form, 2, monkeypatch)
    log_other = -40.0
    rows = np.exp([[0.0, 0.0], [0.0, log_other], [log_other, 0.0]])
    monkeypatch.setattr(Attribute, "joint_likelihood", lambda self, service, cells, ends: rows[cells])
    names = tuple(f"s{i}" for i in range(39))
    versions = tuple(ServiceVersion(name, "", RandomisedResponse(1.0, size=2)) for name in names)
    attribute = Attribute("c", Categories(("a", "b")), 0, versions, joint_services=names)
    row = np.zeros(1, dtype=np.int64)
    answers = [Answers(i, row, np.array([category])) for i, category in enumerate(order)]
    assert np.prod(rows[1:][order], axis=0).tolist() == [0.0, 0.0]
    found = iterate(attribute, tally(attribute, 1, answers), names, 1)
    # 19 answers "a" against 20 answers "b", so b is exp(40) times likelier.
    expected = special.softmax([20 * log_other, 19 * log_other])
    np.testing.assert_allclose(found.distribution, expected, atol=1e-12)


def test_information_kept_rises_with_the_resolution() -> None:
    weights = np.diff(special.betainc(2, 5, np.linspace(0, 1, 33)))
    shares = []
    for joint_buckets in (2, 4, 8, 16, 32):
        attribute = dataclasses.replace(FOUR, buckets=32, joint_buckets=joint_buckets)
        shares.append(information_kept(attribute, attribute.services, weights))
    assert list(shares[0]) == ["sr", "laplace", "pm@old", "pm@new", "sw"]
    for label in shares[0]:
        kept = [share[label] for share in shares]
        assert min(kept) > 0.0
        assert max(kept) <= 1.0
        if label == "sr":  # two reports at any resolution
            assert kept == pytest.approx([1.0] * 5)
        else:
            assert (np.diff(kept) > 0.0).all()
            assert kept[0] < 0.85 < 0.95 < kept[-1]
    statistic = tally(FOUR, 80, ask(FOUR, 80, 1))
    found = estimate("ule", FOUR, statistic, ["sw", "laplace"])
    assert set(found.details["information_kept"]) == {"sw", "laplace"}
    coarse = dataclasses.replace(FOUR, joint_buckets=2)
    found = estimate("ule", coarse, tally(coarse, 80, ask(coarse, 80, 1)), ["sr", "laplace"])
    assert ["says: raise joint_buckets (now 2), or join" in told for told in found.warnings] == [True]
    assert "of what laplace says" in found.warnings[0]


def test_what_cannot_be_joined_is_refused() -> None:
    kept = dataclasses.replace(FOUR, joint_services=(), group_users=False)
    statistic = tally(kept, 80, ask(kept, 80, 1))
    with pytest.raises(ValueError, match="'ule' does not fit: it joins users' reports"):
        estimate("ule", kept, statistic)
    some = dataclasses.replace(FOUR, joint_services=("sr", "pm"))
    statistic = tally(some, 80, ask(some, 80, 1))
    for name in ("ule", "uwa"):
        with pytest.raises(ValueError, match="laplace"):  # says which service is not joined
            estimate(name, some, statistic, ["sr", "laplace"])
