"""The exact chains beside the constants of released code, in closed form."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.pages import Table
from ldpbeam.domains import Categories, Floats
from ldpbeam.mechanisms import CategoricalMechanism, LocalHashing, Mechanism, build_mechanism
from ldpbeam.over_time.memoised import Lifetime, SupportChain, released_options

BUDGETS = ((2.0, 1.0), (3.0, 1.5), (4.0, 1.2), (4.0, 2.0))
SIZES = (10, 100)


SQUARED_ERRORS = """\
The table compares two clients at equal epsilons: one with the exact chain, and one with the constants of
released code (multi-freq-ldpy 0.2.5 and LOLOHA). `ratio of errors` is the mean squared error of unbiased
shares of one window with the first, relative to that with the second. Shares are in proportion to 1/k.
OLOLOHA has another number g of hash values; both draw any seed. `what is left` is the epsilon of a window
that the released constants reach. The numbers are of closed forms. The page has 100 categories; the
file also has 10. Released L-OSUE and L-SUE are exact, with a ratio of 1.

"""
ERRORS = (
    "| code | categories | lifetime epsilon | epsilon | what is left | g: exact, released | ratio of errors |"
)
RELEASED_IBU = """\
Local hashing costs at most g times the lifetime epsilon in a lifetime, so the larger g of the exact chain
costs more where a user has many values.

## The released IBU
`L_GRR_Aggregator_IBU` of multi-freq-ldpy takes q1 p2 + p1 q2 for the probability of each other category,
without (k - 2) q1 q2, so its matrix has rows whose sum is not one. Its estimate from infinitely many
reports, of shares in proportion to 1/k, has a bias; with the right matrix there is none. The stopping
rule is its own: 10,000 iterations, or no share changes by 1e-12.

| categories | lifetime epsilon | epsilon | sum of a row | bias of the largest share | mean absolute bias |
| --- | --- | --- | --- | --- | --- |
"""


def zipf(size: int) -> Floats:
    """Shares in proportion to 1/k."""
    weights = 1.0 / np.arange(1.0, size + 1.0)
    shares: Floats = weights / weights.sum()
    return shares


def error(mechanism: Mechanism, shares: Floats) -> float:
    """The mean squared error of unbiased shares, times the number of reports of one window."""
    assert isinstance(mechanism, CategoricalMechanism)
    noise = mechanism.share_variances(shares, np.zeros(0, dtype=np.int64))
    return float(noise.mean())


def lifetimes(name: str, size: int, lifetime: float, epsilon: float) -> tuple[Lifetime, Lifetime]:
    """(the exact chain, the published one) of a mechanism for so many categories."""
    domain = Categories(tuple(map(str, range(size))))
    # Released clients of local hashing draw any seed; a family of seeds adds up to 1/31 to the error.
    seeds = {"seeds": "any"} if name == "olh" else {}
    exact = Lifetime(build_mechanism(name, domain, epsilon, **seeds), lifetime)
    options = released_options(name, lifetime, epsilon)
    return exact, Lifetime(build_mechanism(name, domain, epsilon, **options), lifetime, as_published=True)


def section() -> Iterator[str | Table]:
    """Errors, the epsilon that published constants leave, and the bias of the released IBU."""
    yield "## Released constants"
    yield from SQUARED_ERRORS.splitlines()
    rows = [ERRORS, "| --- " * 7 + "|"]
    for code, name in (("L-GRR", "grr"), ("OLOLOHA", "olh"), ("L-OSUE", "oue"), ("L-SUE", "sue")):
        for size in SIZES:
            for budgets in BUDGETS:
                exact, published = lifetimes(name, size, *budgets)
                shares = zipf(size)
                hashes = "-"
                if isinstance(exact.window, LocalHashing) and isinstance(published.window, LocalHashing):
                    hashes = f"{exact.window.hashes}, {published.window.hashes}"
                ratio = error(exact.window, shares) / error(published.window, shares)
                rows.append(
                    f"| {code} | {size} | {budgets[0]:g} | {budgets[1]:g} | {published.window.epsilon:.3f} "
                    f"| {hashes} | {ratio:.3f} |"
                )
    yield Table(
        "memoised_released",
        tuple(rows),
        lambda row: row["ratio of errors"] != "1.000" and row["categories"] == str(SIZES[-1]),
        ("categories",),
    )
    yield ""
    yield from RELEASED_IBU.splitlines()
    for size in SIZES:
        for budgets in BUDGETS:
            yield _released_ibu(size, *budgets)


def _released_ibu(size: int, lifetime: float, epsilon: float) -> str:
    _, published = lifetimes("grr", size, lifetime, epsilon)
    chain = published.chain
    assert isinstance(chain, SupportChain)
    (p1, q1), (p2, q2) = chain.permanent, chain.instant
    matrix = np.full((size, size), q1 * p2 + p1 * q2)
    np.fill_diagonal(matrix, p1 * p2 + (1.0 - p1) * q2)
    shares = zipf(size)
    seen = published.window.channel(size, 0).dense() @ shares
    found = np.full(size, 1.0 / size)
    for _ in range(10_000):
        updated = found * (matrix @ (seen / (matrix @ found)))
        done = np.abs(updated - found).max() < 1e-12
        found = updated
        if done:
            break
    bias = found - shares
    return (
        f"| {size} | {lifetime:g} | {epsilon:g} | {matrix.sum(axis=1)[0]:.3f} | {bias[0]:+.3f} "
        f"| {np.abs(bias).mean():.4f} |"
    )
