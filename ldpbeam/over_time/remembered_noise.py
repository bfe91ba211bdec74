"""Do clients remember their noise if, and only if, the study says so?

Take an ordered pair of reports of one user, drawn from all such pairs. Let X_j and X_j' be 1 if the two
support category j. A report supports the person's category with probability p and another one with
probability q; D = p - q. Let f_j be the probability that the first value is j, pi_j that both values are j,
and S the sum of pi_j. Then

    R_j = E (X_j - q)(X_j' - q) = a pi_j + b S + d f_j + e,

where fresh noise has a = D^2 and b = d = e = 0. Remembered noise adds the covariance between two instant
supports of one permanent answer. Whatever values people have, and however these change, 0 <= pi_j <= f_j and
S <= 1. So R_j has a least and a greatest value. It is outside these if noise is fresh or remembered against
the study, or never drawn again.

f_j and R_j are sums over users. Their variance is that by user, or the variance for a rare category under the
study's noise if that is larger: with few supports, the variance by user is too small whenever R_j is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import gammaln, stdtr, xlog1py, xlogy

from ldpbeam.attributes import ServiceVersion
from ldpbeam.domains import Floats, Integers
from ldpbeam.mechanisms import CategoricalMechanism, LocalHashing
from ldpbeam.memoised import SupportChain
from ldpbeam.over_time.joined_windows import JoinedSupports

#: With fewer users who sent two reports or more, there is no test.
FEWEST_USERS = 50
#: The test for noise that is not remembered uses these parts of the categories, the rarest ones.
RARE = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Agreement:
    """The constants of the module's formula: how much two reports of a user agree.

    Attributes:
        p: P(a report supports the user's category).
        q: P(a report supports another category).
        same: a, the effect if both values are the category.
        kept: b, the effect of two equal values.
        first: d, the effect if the first value is the category.
        always: e.
        steps: (P(a permanent answer supports another category), P(a report supports it if the permanent
            answer does), P(a report supports it if not)).
        collision: for ``olh``, how much more two reports agree on a category with the hash of the value.
    """

    p: float
    q: float
    same: float
    kept: float
    first: float
    always: float
    steps: tuple[float, float, float]
    collision: float = 0.0


def agreement(version: ServiceVersion) -> Agreement:
    """How much two reports of a user agree if the study is right.

    For ``olh``, a user's seed lasts, so values with the same hash share a permanent answer. The hashes of
    categories are assumed to be independent.

    Raises:
        ValueError: if reports support no categories.
    """
    mechanism = version.mechanism
    probabilities = mechanism.support_probabilities if isinstance(mechanism, CategoricalMechanism) else None
    if probabilities is None:
        raise ValueError(f"reports of {mechanism.name} support no categories")
    if version.lifetime is None:
        p, q = probabilities
        return Agreement(p, q, (p - q) ** 2, 0.0, 0.0, 0.0, (0.0, q, q))
    chain = version.lifetime.chain
    assert isinstance(chain, SupportChain)
    (p, q), (p1, q1), (p2, q2) = chain.window, chain.permanent, chain.instant
    square = (p2 - q2) ** 2
    of_own, of_other = square * p1 * (1.0 - p1), square * q1 * (1.0 - q1)
    same, steps = (p - q) ** 2 + of_own - of_other, (q1, p2, q2)
    if not isinstance(mechanism, LocalHashing):
        return Agreement(p, q, same, of_other, 0.0, 0.0, steps)
    g = mechanism.hashes
    away = (1.0 - p1) / (g - 1)
    of_away, apart = square * away * (1.0 - away), (p - q) / (g - 1)
    always = (of_own + (g - 1) * of_away) / g**2
    first = 2.0 * (of_own / g - always)
    collision = (p - q) ** 2 + of_own - apart**2 - of_away
    return Agreement(p, q, same - first, of_other - always, first, always, steps, collision)


#: The p-value of each test, or an upper bound of it.
PValues = dict[Literal["remembered_noise", "fresh_noise"], float]


def noise_p_values(version: ServiceVersion, joined: JoinedSupports) -> tuple[int, PValues] | None:
    """(the number of users with two reports or more, p-values); None if there are too few users.

    ``remembered_noise`` tests whether reports agree as much as remembered noise makes them agree; it is only
    for services with a lifetime epsilon. ``fresh_noise`` tests whether they differ as much as fresh noise in
    each window makes them differ.

    Args:
        version: the service.
        joined: what each user sent in several windows.
    """
    users = joined.users.astype(np.float64)
    times = np.arange(joined.windows + 1.0)
    by_reports = users[0].sum(axis=0)
    several = int(by_reports[2:].sum())
    if several < FEWEST_USERS:
        return None
    rates, size = agreement(version), len(users)
    apart = rates.p - rates.q
    supports, sent = times[:, None], times[None, :]
    weights = sent * (sent - 1.0)
    pairs = float(by_reports @ weights[0])
    # Sums over the ordered pairs of a user's reports: of f_j, and of a pi_j + b S.
    one = (sent - 1.0) * (supports - rates.q * sent) / apart
    both = supports * (supports - 1.0) - 2.0 * rates.q * (sent - 1.0) * supports
    both = both + (rates.q**2 - rates.always) * weights - rates.first * one
    shares = np.tensordot(users, one, 2) / pairs
    agreed = np.tensordot(users, both, 2) / pairs
    whole = rates.same + size * rates.kept
    # The variance of a rare category's noise depends on the share of pairs with equal values.
    equal = float(np.clip(agreed.sum() / whole, 0.0, 1.0))
    rare = _rare(rates, joined.windows, equal) * by_reports
    family = _family_variance(version, shares)

    def variances(numbers: Floats, of_family: float) -> Floats:
        mean = np.tensordot(users, numbers, 2) / pairs
        by_user = (users * (numbers - weights * mean[:, None, None]) ** 2).sum(axis=(1, 2))
        expected = (rare * numbers).sum(axis=0) / np.maximum(rare.sum(axis=0), 1.0)
        least = (rare * (numbers - expected) ** 2).sum()
        return np.asarray(np.maximum(by_user, least) / pairs**2 + of_family**2 * family)

    # A family of seeds also moves f_j: an estimated share includes people with the same hash.
    mechanism = version.mechanism
    moved = mechanism.hashes / (mechanism.hashes - 1) if isinstance(mechanism, LocalHashing) else 0.0
    agreed_moved = rates.collision - rates.first * moved
    p_values: PValues = {}
    if rates.kept > 0.0:
        spread = variances(both, agreed_moved)
        away = both - weights * agreed[:, None, None]
        together = (users * away * one).sum(axis=(1, 2)) / pairs**2
        # The choice of rare categories must not depend on the errors of the numbers that are tested.
        ranked = np.argsort(shares - together / spread * agreed)
        zeros, errors = _of_rare(agreed, spread, ranked, rates.kept / whole)
        p_values["remembered_noise"] = _least(zeros, errors, several)
    largest = rates.same * one + rates.kept * weights - both
    most = np.tensordot(users, largest, 2) / pairs
    # Seeds under which categories collide raise both f_j and R_j.
    error = np.sqrt(variances(largest, rates.same * moved - agreed_moved))
    p_values["fresh_noise"] = _least(most, error, several)
    return several, p_values


def _of_rare(agreed: Floats, spread: Floats, ranked: Integers, part: float) -> tuple[Floats, Floats]:
    """(the means of a pi_j over the rarest categories, which are zero or more; their standard errors).

    The errors of categories are correlated in two ways. A user has one value, and perhaps one answer, at a
    time, which lowers the variance of a sum. But some users change their value more often than others, or
    have hashes that agree more often; this adds a variance that all categories share, at most that of one.

    Args:
        agreed: a pi_j + b S, shape (categories,).
        spread: the variances of ``agreed``.
        ranked: the categories, the rarest first.
        part: b S relative to the sum of ``agreed``.
    """
    sums = []
    for share in RARE:
        weights = np.full(len(agreed), -part)
        chosen = ranked[: max(1, round(share * len(agreed)))]
        weights[chosen] += 1.0 / len(chosen)
        variance = weights**2 @ spread + weights.sum() ** 2 * spread.mean()
        sums.append((weights @ agreed, math.sqrt(variance)))
    numbers, errors = np.array(sums).T
    return numbers, errors


def _least(numbers: Floats, errors: Floats, users: int) -> float:
    """The p-value of "all numbers are zero or more", by Bonferroni's correction."""
    return min(1.0, len(numbers) * float(stdtr(users - 1.0, (numbers / errors).min())))


def _rare(rates: Agreement, windows: int, equal: float) -> Floats:
    """The distribution of the number of supports of a category that nobody has, by number of reports.

    Args:
        rates: how much two reports of a user agree.
        windows: the most reports of a user.
        equal: the share of users with one value in all windows; all others have another value in each.
    """
    times = np.arange(windows + 1)
    supports, sent = times[:, None], times[None, :]
    permanent, yes, no = rates.steps
    ways = gammaln(sent + 1.0) - gammaln(supports + 1.0) - gammaln(np.maximum(sent - supports, 0) + 1.0)

    def binomial(chance: float) -> Floats:
        logs = ways + xlogy(supports, chance) + xlog1py(sent - supports, -chance)
        return np.where(supports <= sent, np.exp(logs), 0.0)

    with_answer, without = binomial(yes), binomial(no)
    remembered = permanent * with_answer + (1.0 - permanent) * without
    return equal * remembered + (1.0 - equal) * binomial(rates.q)


def _family_variance(version: ServiceVersion, shares: Floats) -> float:
    """The variance, over families of seeds, of the share of people whose hash is that of a category."""
    mechanism = version.mechanism
    if not isinstance(mechanism, LocalHashing) or not mechanism.seed_family:
        return 0.0
    people = min(1.0, float((np.clip(shares, 0.0, 1.0) ** 2).sum()))
    return people * (mechanism.hashes - 1) / mechanism.hashes**2 / mechanism.seed_family
