"""What fake users can do to each mechanism and its default estimator, and which tests see them.

    python -m benchmarks.fake_users [--seeds 10] [--write docs/fake_users.md]

Some of the people who report are fake. The estimate is compared with that of the honest reports alone.
Rows are kept in build/fake_users.json, and a second call goes on where one stopped. Delete it to start anew.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.coverage import CATEGORIES, KEYS, NUMBERS, owners, zipf
from benchmarks.pages import show
from ldpbeam.attributes import Attribute, ServiceVersion
from ldpbeam.domains import Categories, Domain, Floats, KeyValuePairs, KeyValues
from ldpbeam.estimators import Question, estimate
from ldpbeam.fit import fit_tests, flagged
from ldpbeam.influence import influence
from ldpbeam.intervals.means import has_sums, mean_interval
from ldpbeam.mechanisms import Mechanism, NumericMechanism, UnbiasedMechanism, build_mechanism
from ldpbeam.statistics import Answers, Statistic, tally

USERS, LARGE, EPSILON, BUCKETS = 20_000, 1_000_000, 1.0, 128
SHARES = (0.001, 0.01, 0.05)
#: Fake users choose their report among so many that honest people with the value they push could send. For
#: keys, the likelihoods are counts of so many reports.
POOL, DRAWN = 400, 100_000
NAMES = Categories(tuple(map(str, range(CATEGORIES))))
PAIRS = KeyValues(tuple(map(str, range(KEYS))), NUMBERS)
NUMERIC = (
    "stochastic_rounding", "piecewise", "hybrid", "laplace", "gaussian", "square_wave", "general_wave",
    "discrete_square_wave", "binned", "hierarchy", "haar",
)  # fmt: skip
NOMINAL = ("grr", "olh", "oue", "sue", "hadamard", "block_hadamard")
KEYED = (
    ("privkv", "key_value"), ("pckv_grr", "auto"), ("pckv_ue", "auto"), ("pckv_pm", "pckv_em"),
)  # fmt: skip
RESULTS = Path("build/fake_users.json")
#: Estimators that are means over reports.
EXACT = ("ivw", "inversion")
#: Mechanisms for which a false value is measured; its effect hardly depends on the mechanism.
QUIET = ("piecewise", "laplace", "gaussian", "square_wave", "grr", "olh", "pckv_ue")
PROCESSED = ("inversion", "norm_sub", "norm_cut", "norm_mul", "mle", "em", "auto")


class Push(NamedTuple):
    """What fake users push: the top of a number, the rarest category, or the rarest key with the top value.

    Attributes:
        value: the value, as ``perturb`` takes it for one person.
        place: the category or key; the last of them.
    """

    value: Any
    place: int


def attribute_of(mechanism: Mechanism, domain: Domain) -> Attribute:
    return Attribute("x", domain, BUCKETS, (ServiceVersion("s", "", mechanism),))


def people(domain: Domain, n: int, rng: np.random.Generator) -> Any:
    if isinstance(domain, Categories):
        return zipf(n, rng)
    return owners(n, rng) if isinstance(domain, KeyValues) else rng.beta(2.0, 5.0, n)


def pushed(domain: Domain, many: int) -> Any:
    """The values of people who have what fake users push."""
    if isinstance(domain, Categories):
        return np.full(many, CATEGORIES - 1)
    if isinstance(domain, KeyValues):
        return KeyValuePairs(np.arange(many + 1), np.full(many, KEYS - 1), np.ones(many))
    return np.ones(many)


def loudest(mechanism: Mechanism, domain: Domain, rng: np.random.Generator) -> NDArray[Any]:
    """The one report that says most for what is pushed, shape (1,).

    For reports that are averaged it is the largest one. For others it is the one, of those that people with
    what is pushed send, with the largest ratio of its likelihood to that under all values alike. For keys the
    ratio is that of counts of drawn reports, of these people and of everybody.
    """
    if isinstance(mechanism, NumericMechanism):
        return np.array([mechanism.report_range[1]])
    pool = mechanism.perturb(pushed(domain, POOL), rng)
    if isinstance(mechanism, UnbiasedMechanism):
        return pool[[int(np.argmax(mechanism.unbiased(pool)))]]
    histograms = np.array([mechanism.histogram(pool[[place]], BUCKETS) for place in range(len(pool))])
    if isinstance(domain, KeyValues):
        having, everybody = (
            mechanism.histogram(mechanism.perturb(persons, rng), BUCKETS) + 1.0
            for persons in (pushed(domain, DRAWN), people(domain, DRAWN, rng))
        )
        ratios = np.log(having / everybody)
    else:
        buckets = attribute_of(mechanism, domain).value_buckets
        channel = mechanism.histogram_channel(buckets, BUCKETS)
        target, even = np.eye(buckets)[-1], np.full(buckets, 1.0 / buckets)
        ratios = np.log(np.maximum(channel.matvec(target), 1e-300) / channel.matvec(even))
    return pool[[int(np.argmax(histograms @ ratios))]]


def counted(attribute: Attribute, reports: NDArray[Any]) -> Statistic:
    return tally(attribute, len(reports), [Answers(0, np.arange(len(reports)), reports)])


def told(attribute: Attribute, estimator: str, statistic: Statistic) -> Floats:
    """What can be pushed: the mean of a number, the shares of categories, or frequencies of keys."""
    found = estimate(estimator, attribute, statistic)
    if found.frequencies is not None:
        return found.frequencies
    if found.mean is not None:
        return np.array([found.mean])
    assert found.distribution is not None
    return found.distribution


def seen(attribute: Attribute, statistic: Statistic) -> bool:
    """Whether a test of fit is flagged, or the interval of the mean."""
    if any(flagged([test.p_value for test in fit_tests(attribute, statistic)])):
        return True
    question = Question(attribute, statistic, ("s",))
    return has_sums(question) and bool(mean_interval(question, 0.95).flags)


class Measured(NamedTuple):
    """Means over seeds: how far the pushed number moved, and in how many runs a test saw it."""

    shift: float
    seen: int


def measured(
    mechanism: Mechanism, domain: Domain, estimators: Sequence[str], users: int, seeds: int, *, loud: bool
) -> dict[tuple[str, float], Measured]:
    """By estimator and share of fake users."""
    attribute = attribute_of(mechanism, domain)
    shifts: dict[tuple[str, float], list[float]] = {}
    flags: dict[float, int] = {}
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        honest = mechanism.perturb(people(domain, users, rng), rng)
        whole = {name: told(attribute, name, counted(attribute, honest)) for name in estimators}
        for share in SHARES:
            fake = round(share * users)
            sent = honest.copy()
            sent[:fake] = (
                loudest(mechanism, domain, rng) if loud else mechanism.perturb(pushed(domain, fake), rng)
            )
            after, rest = counted(attribute, sent), counted(attribute, honest[fake:])
            flags[share] = flags.get(share, 0) + seen(attribute, after)
            for name in estimators:
                # Means over reports are compared without the noise of the reports that are replaced.
                start = told(attribute, name, rest) if name in EXACT else whole[name]
                shifts.setdefault((name, share), []).append(float((told(attribute, name, after) - start)[-1]))
    return {key: Measured(float(np.mean(values)), flags[key[1]]) for key, values in shifts.items()}


def cell(one: Measured, seeds: int) -> str:
    return f"{one.shift:+.3f} ({one.seen} of {seeds})"


def rows(title: str, found: dict[tuple[str, float], Measured], name: str, bound: str, seeds: int) -> str:
    cells = " | ".join(cell(found[name, share], seeds) for share in SHARES)
    return f"| {title} | `{name}` | {cells} | {bound} |"


def of(mechanism: str, domain: Domain) -> Mechanism:
    options: dict[str, Any] = {"padding": 3} if mechanism.startswith("pckv") else {}
    if mechanism == "binned":
        options = {"bins": 16, "oracle": "grr"}
    if mechanism in ("hierarchy", "haar"):
        options = {"leaves": 64}
    return build_mechanism(mechanism, domain, EPSILON, **options)


HEAD = ("| mechanism | estimator | 0.1% | 1% | 5% | 1% at most |", "| --- | --- | --- | --- | --- | --- |")


def table(loud: bool, seeds: int) -> Iterator[str]:
    yield from HEAD
    for name in NUMERIC:
        mechanism = of(name, NUMBERS)
        names = ("ivw", "auto") if isinstance(mechanism, UnbiasedMechanism) else ("auto",)
        if loud or name in QUIET:
            yield from of_mechanism(mechanism, NUMBERS, names, USERS, seeds, loud)
    for name in NOMINAL:
        if loud or name in QUIET:
            yield from of_mechanism(of(name, NAMES), NAMES, ("auto",), USERS, seeds, loud)
    for name, estimator in KEYED:
        if loud or name in QUIET:
            yield from of_mechanism(of(name, PAIRS), PAIRS, (estimator,), USERS, seeds, loud)


def of_mechanism(
    mechanism: Mechanism, domain: Domain, names: Sequence[str], users: int, seeds: int, loud: bool
) -> Iterator[str]:
    key = f"{mechanism.name} {users} {seeds} {'loud' if loud else 'quiet'}"
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if key not in known:
        found = measured(mechanism, domain, names, users, seeds, loud=loud)
        bounds = [influence(attribute_of(mechanism, domain), name, ("s",)) for name in names]
        known[key] = [
            rows(mechanism.name, found, name, "" if bound is None else f"{0.01 * bound:.3f}", seeds)
            for name, bound in zip(names, bounds, strict=True)
        ]
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(known, indent=1))
    yield from known[key]


def processed(seeds: int) -> Iterator[str]:
    """How far estimators of categories move the pushed share, divided by how far unbiased shares move."""
    yield "| mechanism | " + " | ".join(f"`{name}`" for name in PROCESSED) + " |"
    yield "| --- |" + " --- |" * len(PROCESSED)
    for name in ("grr", "olh", "oue"):
        mechanism = of(name, NAMES)
        fitting = [one for one in PROCESSED if one != "mle" or name != "olh"]
        found = measured(mechanism, NAMES, fitting, USERS, seeds, loud=True)
        plain = found["inversion", 0.05].shift
        cells = [f"{found[one, 0.05].shift / plain:.2f}" if one in fitting else "" for one in PROCESSED]
        yield f"| {name} | {' | '.join(cells)} |"


INTRODUCTION = """\
# What fake users can do

Written by `python -m benchmarks.fake_users --write docs/fake_users.md`. Whoever can send reports can
send false ones: local differential privacy gives each user much freedom, and no test tells a lie from a
rare value. This page measures what fake users do who make up a share of all users.

Epsilon is {epsilon:g}, and {users:,} users report. Numbers are Beta(2, 5) on [0, 1], with {buckets}
buckets. There are {categories} categories with shares in proportion to 1/k, and {keys} keys, of which
people have none to three. Fake users push the mean to the top, or the rarest category or key up. A row
has the estimator that a study takes by default (`auto` where there is one), and for means also `ivw`.
The shift is that of the mean, in widths of the domain, or of the pushed share or frequency, from the
estimate of the honest reports alone. In brackets stands in how many of {seeds} runs a test of fit, or
the interval of the mean, is flagged. "1% at most" is the bound of `ldpbeam plan` for 1% of fake users:
m of n fake users move the estimate by at most 100 m/n times that, whatever they send. Estimators that
are no means over reports have no bound.

## The report that says most
All fake users send one report, the one that speaks most for what they push: the largest number, the
category itself, or a hash that it supports.
"""
OF_LOUD = """
Laplace reports count as 1 + 2/epsilon at most (on [-1, 1]), less than PM's largest report up to epsilon
2.5. Gaussian reports count as at most 1.95 deviations, four times PM's largest report at epsilon 1 and
delta 1e-6, so that they move this mean 3.75 times as far. It cannot be much less: two values whose
reports differ by a total variation of m cannot be told apart if a share m of the users is fake, so that
every estimator is off by m sigma sqrt(pi/2) for one of them. That is 2.6 times PM's largest report, and
2.3 times its shift here. The plain mean would move 75 times as far as with PM ([decision
37](decisions/37-fake-users.md)).

`auto` amplifies fake users of Gaussian reports. The slope of the log-likelihood grows with a report, up
to four deviations, where `ivw` counts all reports beyond 1.2 deviations alike. So 1% who send the
largest report move the mean of `auto` twice as far as that of `ivw`. Take `ivw` for such means.

With PrivKV a report is of one key, drawn at random. Fake users who are 1% of all and name one key are a
sixth of its reports here. Its frequencies are unbiased and are not cut at 1, so that 5% of fake users
move one by more than 1.

## A false value, perturbed as it should be
Fake users take the value that they push and perturb it like everybody. Their reports are those of
people who have it: no test can see them, whatever the mechanism, and each flag below is a false alarm.
They move a mean by their share times its distance to the end, and a share of a category by their share.
`auto` moves less where it smooths or pools what is rare.
"""
AMPLIFIED = """
## Estimators that amplify
The shift of the pushed category with 5% of fake users who all send the same report, divided by the
shift of unbiased shares (`inversion`). An estimator with a number above one amplifies what fake users
do. Norm-Sub is known to amplify attacks on several categories at once (arXiv 2503.03454): it sets
shares below zero to zero, and lowers the others so that they sum to one. Its bound in `plan` takes
account of that.
"""
HELP = """
## What helps
- **Accounts that cost something.** A user's further reports to a service are duplicates and are
  dropped, so a fake user is one account. Ids must be given by a server; a client that chooses its ids
  is any number of users.
- **A larger epsilon** leaves less freedom: the bounds fall with the noise.
- **Flags.** A flagged estimate may be off by as much as the tables say. An estimate without a flag may
  be, too.
- **Sampled coordinates of a vector** can all be the same one for fake users, so that their share of its
  reports is larger by the number of coordinates. `ldpbeam plan` counts that.
"""


def page(seeds: int) -> Iterator[str]:
    yield from INTRODUCTION.format(
        epsilon=EPSILON, users=USERS, buckets=BUCKETS, categories=CATEGORIES, keys=KEYS, seeds=seeds
    ).split("\n")
    yield from table(True, seeds)
    yield f"\nThe same with {LARGE:,} users, for means, in one run each:\n"
    yield from table_of_means(seeds)
    yield from OF_LOUD.split("\n")
    yield from table(False, seeds)
    yield from AMPLIFIED.split("\n")
    yield from processed(seeds)
    yield from HELP.rstrip("\n").split("\n")


def table_of_means(seeds: int) -> Iterator[str]:
    yield from HEAD
    for name in ("stochastic_rounding", "piecewise", "laplace", "gaussian"):
        yield from of_mechanism(of(name, NUMBERS), NUMBERS, ("ivw",), LARGE, 1, True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    show(page(options.seeds), options.write)


if __name__ == "__main__":
    main()
