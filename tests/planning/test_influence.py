"""No report moves a mean, or a share, further than its bound says."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from support.covering import covering

from ldpbeam import Answers, Attribute, Categories, Numeric, ServiceVersion, build_mechanism, tally
from ldpbeam.domains import Domain
from ldpbeam.estimators import estimate
from ldpbeam.mechanisms import Piecewise
from ldpbeam.planning.influence import influence

MINUTES, COLOURS = Numeric(-10.0, 30.0), Categories(tuple("abcdefgh"))
N, FAKE = 400, 40
#: The rows and the payloads of the reports of each channel.
Reports = dict[int, tuple[np.ndarray, np.ndarray]]  # type: ignore[type-arg]


def asked(domain: Domain, *mechanisms: str) -> Attribute:
    versions = [
        ServiceVersion(f"s{place}", "", build_mechanism(name, domain, 1.0))
        for place, name in enumerate(mechanisms)
    ]
    return Attribute("x", domain, 64, tuple(versions))


def test_pms_bound_is_that_of_its_largest_report() -> None:
    bound = influence(asked(MINUTES, "piecewise"), "ivw", ("s0",))
    assert bound == pytest.approx((Piecewise(1.0).bound + 1.0) / 2.0 * 40.0)


@pytest.mark.parametrize(
    ("domain", "mechanism", "estimators"),
    [
        *((MINUTES, name, ("ivw", "ua")) for name in ("laplace", "gaussian", "hybrid", "square_wave")),
        (MINUTES, "stochastic_rounding", ("ivw",)),
        (MINUTES, "discrete_square_wave", ("ivw",)),
        *((COLOURS, name, ("inversion", "norm_sub")) for name in ("grr", "olh", "oue", "hadamard")),
        (COLOURS, "block_hadamard", ("inversion", "norm_sub")),
    ],
    ids=str,
)
def test_fake_users_move_an_estimate_no_further_than_the_bound(
    domain: Domain, mechanism: str, estimators: tuple[str, ...]
) -> None:
    attribute = asked(domain, mechanism)
    rng = np.random.default_rng(5)
    values = rng.random(N) if domain is MINUTES else rng.integers(0, 8, N)
    own = attribute.versions[0].mechanism
    honest = own.perturb(values, rng)
    # Every report that was drawn, and the ends of the range, may be what all fake users send.
    candidates = list(own.perturb(values[:30], rng))
    if hasattr(own, "report_range"):
        candidates += list(own.report_range)
    for estimator in estimators:
        bound = influence(attribute, estimator, ("s0",))
        before = answer(attribute, estimator, honest[FAKE:])
        # The bound is one from honest people, and noise may put their estimate outside of the possible.
        noise = 0.0
        if domain is COLOURS:
            raw, nearest = (answer(attribute, name, honest[FAKE:]) for name in ("inversion", "norm_sub"))
            noise = float(np.sqrt(((raw - nearest) ** 2).sum()))
        moved = []
        for report in candidates:
            sent = honest.copy()
            sent[:FAKE] = report
            moved.append(np.abs(answer(attribute, estimator, sent) - before).max())
        assert max(moved) <= (bound + noise) * FAKE / N * (1.0 + 1e-9)
        # A bound of one share, or of a mean, is nearly reached; that of Norm-Sub is of all shares together.
        if estimator in ("ivw", "inversion"):
            assert max(moved) > 0.5 * bound * FAKE / N


def answer(attribute: Attribute, estimator: str, reports: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    return told(attribute, estimator, {0: (np.arange(len(reports)), reports)}, len(reports))


def test_estimators_that_are_no_mean_have_no_bound() -> None:
    for estimator in ("auto", "ems", "uwa"):
        assert influence(asked(MINUTES, "laplace"), estimator, ("s0",)) is None
    assert influence(asked(COLOURS, "grr"), "mle", ("s0",)) is None


@pytest.mark.parametrize(
    ("estimator", "place", "epsilons", "versions"),
    covering(
        itertools.product(
            ["ivw", "ua", "inversion", "norm_sub"],
            [0.0, 0.5, 1.0],
            [(0.5, 4.0), (4.0, 0.5), (1.0, 1.0)],
            [True, False],
        )
    ),
)
def test_fake_users_who_choose_a_version_or_one_service_move_an_estimate_no_further_than_the_bound(
    estimator: str, place: float, epsilons: tuple[float, float], versions: bool
) -> None:
    domain, name = (MINUTES, "piecewise") if estimator in ("ivw", "ua") else (COLOURS, "grr")
    channels = [
        ServiceVersion(f"s{0 if versions else number}", f"v{number}", build_mechanism(name, domain, epsilon))
        for number, epsilon in enumerate(epsilons)
    ]
    attribute = Attribute("x", domain, 64, tuple(channels))
    bound = influence(attribute, estimator, attribute.services)
    rng, n, fake = np.random.default_rng(3), 4_000, 40
    values = np.full(n - fake, place) if domain is MINUTES else rng.integers(0, 8, n - fake)
    people, liars = np.arange(n - fake), np.arange(n - fake, n)
    # Honest people answer the last version, or both services.
    honest = {
        index: (people, attribute.versions[index].mechanism.perturb(values, rng))
        for index in ([1] if versions else [0, 1])
    }
    before = told(attribute, estimator, honest, n - fake)
    for chosen in ((0,), (1,)) if versions else ((0,), (1,), (0, 1)):
        for end in (0, 1):
            sent = dict(honest)
            for index in chosen:
                mechanism = attribute.versions[index].mechanism
                largest = isinstance(mechanism, Piecewise)
                report = mechanism.report_range[end] if largest else mechanism.perturb([7 * end], rng)[0]
                rows, payloads = honest.get(index, (people[:0], np.zeros(0, mechanism.payload_dtype)))
                false = np.full(fake, report, dtype=mechanism.payload_dtype)
                sent[index] = np.append(rows, liars), np.append(payloads, false)
            moved = np.abs(told(attribute, estimator, sent, n) - before).max()
            # The honest people's estimate has noise, which is a part of the distance.
            assert moved <= 1.02 * bound * fake / n


def told(attribute: Attribute, estimator: str, reports: Reports, users: int) -> np.ndarray:  # type: ignore[type-arg]
    answers = [Answers(index, *rows_and_payloads) for index, rows_and_payloads in reports.items()]
    found = estimate(estimator, attribute, tally(attribute, users, answers))
    if found.distribution is not None:
        return found.distribution
    return np.array([found.details.get("mean_of_reports", found.mean)])
