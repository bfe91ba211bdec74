"""What fake users can do to each mechanism and its default estimator: the worst of several attacks.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.fake_users [--seeds 10] [--only WORD ...]
                                                           [--write docs/fake_users.md]

Some of the people who report are fake. The estimate is compared with that of the honest reports alone.
Runs are kept in build/fake_users.jsonl as they come, and a second call goes on where one stopped. Delete it
to start anew. ``--seeds 0`` makes no run, and writes the page of those that are there. Runs of 1,000,000
users take the first seed. One thread is fastest, because the matrices are small.
"""

from __future__ import annotations

import argparse
import csv
import functools
import io
import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.coverage import CATEGORIES, KEYS, NUMBERS
from benchmarks.liars import ALIKE, ATTACKS, BUCKETS, Attack, Crowd, Target, parts, searched
from benchmarks.pages import show
from ldpbeam.domains import Categories, Domain, KeyValues
from ldpbeam.estimators import estimate
from ldpbeam.fit import fit_tests, flagged
from ldpbeam.mechanisms import Mechanism, UnbiasedMechanism, build_mechanism
from ldpbeam.planning.influence import influence
from ldpbeam.statistics import Answers, Statistic, merge, tally

USERS, LARGE, EPSILON = 20_000, 1_000_000, 1.0
SHARES = (0.001, 0.01, 0.05)
NAMES = Categories(tuple(map(str, range(CATEGORIES))))
PAIRS = KeyValues(tuple(map(str, range(KEYS))), NUMBERS)
NUMERIC = (
    "stochastic_rounding", "piecewise", "hybrid", "laplace", "gaussian", "square_wave", "general_wave",
    "discrete_square_wave", "binned", "haar", "hierarchy",
)  # fmt: skip
NOMINAL = ("grr", "olh", "oue", "sue", "hadamard", "block_hadamard")
KEYED = ("privkv", "pckv_grr", "pckv_ue", "pckv_pm")
#: All runs of this one come last: an estimate takes fifteen times as long as those of the others.
SLOWEST = "hierarchy"
RESULTS = Path("build/fake_users.jsonl")
MEASURED = "measured/fake_users.csv"
CHOSEN, SEARCHED, UNSEEN = "a chosen answer", "searched", "unseen"
#: The seed of the people with whom fake users search for the reports that move an estimator most.
REHEARSAL = 1_000


class Run(NamedTuple):
    """One run: people and reports of one seed.

    Attributes:
        name: the mechanism and what is pushed.
        shifts: by estimator, share of fake users and attack, how far what is pushed moved.
        seen: by share of fake users, whether a test of fit flags the attack that none should see.
    """

    name: str
    users: int
    seed: int
    shifts: Mapping[str, Mapping[str, Mapping[str, float]]]
    seen: Mapping[str, bool]


def of(mechanism: str, domain: Domain) -> Mechanism:
    options: dict[str, Any] = {"padding": 3} if mechanism.startswith("pckv") else {}
    if mechanism == "binned":
        options = {"bins": 16, "oracle": "grr"}
    if mechanism in ("hierarchy", "haar"):
        options = {"leaves": 64}
    return build_mechanism(mechanism, domain, EPSILON, **options)


@functools.cache
def targets() -> Mapping[str, Target]:
    """What is pushed of each mechanism, by a name."""
    nominal = {name: Target(of(name, NAMES), NAMES, CATEGORIES - 1) for name in NOMINAL}
    keyed: dict[str, Target] = {}
    for name in KEYED:
        mechanism = of(name, PAIRS)
        keyed[name] = Target(mechanism, PAIRS, KEYS - 1)
        keyed[f"{name}, a key's mean"] = Target(mechanism, PAIRS, 0, of_mean=True)
    return nominal | keyed | {name: Target(of(name, NUMBERS), NUMBERS) for name in NUMERIC}


def estimators(target: Target) -> tuple[str, ...]:
    """The default estimator, and then those whose bounds ``ldpbeam plan`` has, or that papers take."""
    if isinstance(target.domain, Categories):
        return "auto", "inversion", "norm_sub"
    if isinstance(target.domain, KeyValues):
        return "auto", "key_value"
    return ("auto", "ivw") if isinstance(target.mechanism, UnbiasedMechanism) else ("auto",)


def counted(target: Target, reports: Any) -> Statistic:
    return tally(target.attribute, len(reports), [Answers(0, np.arange(len(reports)), reports)])


def told(target: Target, estimator: str, statistic: Statistic) -> float:
    """What is pushed, as the estimator finds it."""
    found = estimate(estimator, target.attribute, statistic)
    if found.frequencies is not None:
        assert found.key_means is not None
        return float((found.key_means if target.of_mean else found.frequencies)[target.place])
    if found.mean is not None:
        return float(found.details.get("mean_of_reports", found.mean))
    assert found.distribution is not None
    return float(found.distribution[target.place])


def seen(target: Target, statistic: Statistic) -> bool:
    """Whether a test of fit is flagged."""
    return any(flagged([test.p_value for test in fit_tests(target.attribute, statistic)]))


@functools.cache
def found_by_search(target: Target, users: int, share: float) -> Attack:
    """The attack, of several, that moves the default estimator furthest in a rehearsal with other people."""
    rng = np.random.default_rng(REHEARSAL)
    honest = target.mechanism.perturb(target.people(users, rng), rng)
    fake = round(share * users)
    rest = counted(target, honest[fake:])

    def reached(attack: Attack) -> float:
        sent = attack(Crowd(target, honest[fake:], fake, share, rng))
        return told(target, estimators(target)[0], merge([rest, counted(target, sent)]))

    return max(map(searched, parts()), key=reached)


def run(name: str, users: int, seed: int) -> Run:
    """All attacks and shares of fake users on people of one seed."""
    target = targets()[name]
    rng = np.random.default_rng(seed)
    honest = target.mechanism.perturb(target.people(users, rng), rng)
    shifts: dict[str, dict[str, dict[str, float]]] = {one: {} for one in estimators(target)}
    saw: dict[str, bool] = {}
    for share in SHARES:
        fake, label = round(share * users), f"{share:g}"
        rest = counted(target, honest[fake:])
        start = {one: told(target, one, rest) for one in shifts}
        for attack, make in {**ATTACKS, SEARCHED: found_by_search(target, users, share)}.items():
            after = merge([rest, counted(target, make(Crowd(target, honest[fake:], fake, share, rng)))])
            for one in shifts:
                moved = told(target, one, after) - start[one]
                shifts[one].setdefault(label, {})[attack] = round(moved, 6)
            if attack == UNSEEN:
                saw[label] = seen(target, after)
    return Run(name, users, seed, shifts, saw)


def runs(seeds: int, only: Sequence[str]) -> list[Run]:
    """The runs that are kept, and those that are missing: the first seed of all comes first."""
    kept = [Run(**json.loads(line)) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    have = {(one.name, one.users, one.seed) for one in kept}
    RESULTS.parent.mkdir(exist_ok=True)
    wanted = [(USERS, seed) for seed in range(seeds)]
    wanted[1:1] = [(LARGE, 0)] if seeds else []
    names = [name for name in targets() if any(word in name for word in only)]
    jobs = [(name, users, seed) for users, seed in wanted for name in names]
    for name, users, seed in sorted(jobs, key=lambda job: job[0] == SLOWEST):
        if (name, users, seed) not in have:
            made = run(name, users, seed)
            kept.append(made)
            with RESULTS.open("a") as file:
                file.write(json.dumps(made._asdict()) + "\n")
            print(f"{name}, {users:,} users, seed {seed}", flush=True)
    return kept


class Cell(NamedTuple):
    """The mean shift over runs, and its standard error; zero for one run."""

    shift: float
    error: float
    runs: int


Cells = Mapping[tuple[str, str, int, float, str], Cell]


def cells(made: list[Run]) -> Cells:
    """Means over seeds, by name, estimator, users, share of fake users, and attack."""
    values: dict[tuple[str, str, int, float, str], list[float]] = {}
    for one in made:
        for estimator, by_share in one.shifts.items():
            for share, by_attack in by_share.items():
                for attack, shift in by_attack.items():
                    key = one.name, estimator, one.users, float(share), attack
                    values.setdefault(key, []).append(shift)
    return {
        key: Cell(
            float(np.mean(found)),
            float(np.std(found, ddof=1) / np.sqrt(len(found))) if len(found) > 1 else 0.0,
            len(found),
        )
        for key, found in values.items()
    }


def bound_of(name: str, estimator: str) -> float | None:
    """The bound that ``ldpbeam plan`` has, for fake users only."""
    return influence(targets()[name].attribute, estimator, ("s",))


@functools.cache
def alike(name: str) -> frozenset[str]:
    """The attacks whose reports are all alike: for GRR also others than that of one report.

    Reports found by a search are alike where chosen answers are.
    """
    rng = np.random.default_rng(0)
    target = targets()[name]
    honest = target.mechanism.perturb(target.people(USERS, rng), rng)
    crowd = Crowd(target, honest, USERS // 100, SHARES[-1], rng)
    same = {attack for attack, make in ATTACKS.items() if len(np.unique(make(crowd))) == 1}
    return frozenset(same | ({SEARCHED} if CHOSEN in same else set()))


def whole() -> str:
    """The mechanisms whose chosen answers are all alike, in words."""
    names = [f"`{name}`" for name in targets() if CHOSEN in alike(name)]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def worst(
    found: Cells, name: str, estimator: str, users: int, share: float, *, varied: bool = False
) -> str | None:
    """The attack with the largest mean shift, of all or of those that vary; None if there is no run."""
    shifts = {
        attack: found[name, estimator, users, share, attack].shift
        for attack in SENT
        if (name, estimator, users, share, attack) in found and not (varied and attack in alike(name))
    }
    return max(shifts, key=shifts.__getitem__) if shifts else None


def moved(found: Cells, name: str, estimator: str, users: int, share: float, *, varied: bool = False) -> str:
    """The largest mean shift; empty if there is no run."""
    attack = worst(found, name, estimator, users, share, varied=varied)
    return "" if attack is None else f"{found[name, estimator, users, share, attack].shift:+.3f}"


def summary(found: Cells) -> Iterator[str]:
    """The worst attack on each mechanism and default estimator, and on one that is a mean over reports."""
    yield (
        "| mechanism | estimator | 0.1% | 1% | 5% | worst at 5% | 5%, reports vary | 5%, unseen | "
        f"5% of {LARGE:,} | 5% at most |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    most = SHARES[-1]
    for name, target in targets().items():
        for estimator in estimators(target)[: 1 if isinstance(target.domain, KeyValues) else 2]:
            attack = worst(found, name, estimator, USERS, most)
            if attack is None:
                continue
            shifts = [moved(found, name, estimator, USERS, share) for share in SHARES]
            varied = moved(found, name, estimator, USERS, most, varied=True)
            hidden = f"{found[name, estimator, USERS, most, UNSEEN].shift:+.3f}"
            large, bound = moved(found, name, estimator, LARGE, most), bound_of(name, estimator)
            bounded = "" if bound is None else f"{most * bound:.3f}"
            row = (name, f"`{estimator}`", *shifts, attack, varied, hidden, large, bounded)
            yield f"| {' | '.join(row)} |"


def beyond_means(found: Cells) -> str:
    """For which mechanisms ``auto`` is moved further than the mean of reports, in a sentence."""
    names = [name for name, target in targets().items() if "ivw" in estimators(target)]
    shifts = {
        name: [
            found[name, one, USERS, SHARES[-1], attack].shift
            for one in ("auto", "ivw")
            if (attack := worst(found, name, one, USERS, SHARES[-1], varied=True)) is not None
        ]
        for name in names
    }
    further = [name for name, both in shifts.items() if len(both) == 2 and both[0] > 1.05 * both[1]]
    return (
        f"Of {len(names)} mechanisms with unbiased numbers, reports that vary move the mean of `auto` by "
        f"more than 1.05 times that of `ivw` for {', '.join(further) or 'none'}."
    )


def bounds_checked(found: Cells) -> str:
    """How near measured shifts come to the bounds of ``plan``, in a sentence."""
    ratios = {}
    for (name, estimator, users, share, attack), cell in found.items():
        bound = bound_of(name, estimator)
        if bound is not None:
            beyond = cell.shift - share * bound
            ratios[name, estimator, users, share, attack] = cell.shift / (share * bound), beyond, cell.error
    nearest = max(ratios, key=lambda key: ratios[key][0])
    above = [key for key, (_, beyond, error) in ratios.items() if beyond > max(4.0 * error, 1e-3)]
    said = (
        f"Of {len(ratios):,} measured shifts with a bound, {len(above) or 'none'} lies above it by more than "
        f"its noise. The nearest is {ratios[nearest][0]:.2f} of it ({nearest[0]}, `{nearest[1]}`, "
        f"{nearest[4]})."
    )
    return said if not above else f"{said} Above: {'; '.join(map(str, above))}."


def unseen_checked(made: list[Run]) -> str:
    """How often tests flag the reports that none should see, in a sentence."""
    flags = [flag for one in made for flag in one.seen.values()]
    return (
        f"Tests of fit flag {sum(flags)} of {len(flags):,} runs of the attack *unseen*; a true claim is "
        "flagged in at most 1 of 100."
    )


def missing(made: list[Run], seeds: int) -> str:
    """How many runs the cells have, and which have fewer than wanted, in a sentence."""
    kept = [(one.name, one.users) for one in made]
    of_runs: dict[int, list[str]] = {}
    for name in targets():
        of_runs.setdefault(kept.count((name, USERS)), []).append(name)
    usual = max(of_runs, key=lambda runs: len(of_runs[runs]))
    others = [f"{', '.join(names)}: {runs}" for runs, names in of_runs.items() if runs != usual]
    large = [name for name in targets() if (name, LARGE) not in kept]
    said = f"Shifts are means of {usual} runs"
    said += f" of {seeds} wanted" if usual < seeds else ""
    said += f" ({'; '.join(others)})" if others else ""
    said += f", and of one run with {LARGE:,} users"
    return said + (f" (none: {', '.join(large)})." if large else ".")


def table(found: Cells) -> str:
    """Every cell, as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    heads = "mechanism,estimator,users,share_of_fake_users,attack,runs,shift,standard_error,bound"
    text.write(heads + "\n")
    order = {name: place for place, name in enumerate(targets())}
    attacks = [*ATTACKS, SEARCHED]
    for key in sorted(found, key=lambda key: (order[key[0]], key[1:4], attacks.index(key[4]))):
        name, estimator, users, share, attack = key
        cell, bound = found[key], bound_of(name, estimator)
        most = "" if bound is None else f"{share * bound:.6g}"
        writer.writerow(
            (name, estimator, users, share, attack, cell.runs, f"{cell.shift:.6f}", f"{cell.error:.6f}", most)
        )
    return text.getvalue()


#: What fake users send in each attack.
SENT = {
    ALIKE: "the largest number, or the report that says most for what they push",
    "a false value": "what they push, perturbed as it should be",
    CHOSEN: "what people send who have what is pushed, drawn until it speaks for it: seeds, rows "
    "and other bits are as they come",
    "the top fifth": "the fifth of these reports that says most: numbers spread over the top",
    "copies": "copies of honest people's reports that speak for what is pushed",
    UNSEEN: "as far as they get while all reports together are those of other honest people: a linear "
    "programme finds it, from the values of the honest people",
    SEARCHED: "the one of {searched} ways to draw reports that moved this estimator furthest in a rehearsal",
}
PAGE = """\
# What fake users can do

Written by `python -m benchmarks.fake_users --write docs/fake_users.md`. Whoever can send reports can
send false ones: local differential privacy gives each user much freedom, and no test tells a lie from a
rare value. This page measures the worst of several attacks on every mechanism.

Epsilon is {epsilon:g}, and {users:,} users report. Numbers are Beta(2, 5) on [0, 1], with {buckets}
buckets. There are {categories} categories with shares in proportion to 1/k, and {keys} keys, of which
people have none to three. Fake users push the mean to the top, the rarest category or key up, or the mean
of the most frequent key. The shift is that of the mean, in widths of the domain, or of the pushed share or
frequency, from the estimate of the honest reports alone.

## Attacks
{attacks}

**No test sees fake users who take care.** Tests of fit find reports that no honest people send, such as
those of fake users who all send one report. With *unseen*, the histogram is exactly what honest people
with other values would give: no test of it can find anything, and every estimator that is right for those
people is wrong for these. {unseen}
So this page does not count what is seen, and a run without a flag says nothing of fake users.

## The worst of them

{missing} The first three columns have the worst attack, the fifth the worst of those with reports that vary.
With {whole} an answer is a whole report, so that fake users need not vary.
"At most" is the bound of `ldpbeam plan`, whatever fake users send; estimators that are no means over
reports have none. All attacks and estimators are in [{measured}]({measured}).

{summary}

{bounds}

{further} The log-likelihood of a Gaussian report grows up to four deviations, where `ivw` counts all
reports beyond 1.2 deviations alike: take `ivw` for such means ([decision 37](decisions/README.md)).

With PrivKV a report is of one key, drawn at random, so that fake users who all name one key are a large
part of its reports. A test of fit finds keys that are named too often; the attack *unseen* names none more
often than others, and is what remains.

## What helps
- **Accounts that cost something.** A user's further reports to a service are duplicates and are
  dropped, so a fake user is one account. Ids must be given by a server; a client that chooses its ids
  is any number of users.
- **A larger epsilon** leaves less freedom: the bounds fall with the noise.
- **Figures that say how far.** Read an estimate with the bound of `ldpbeam plan`, or with the table above,
  for the share of accounts that you think may be false. A flag tells only of clumsy ones.
- **Only versions that honest clients run.** A report to an old version with a larger epsilon has a greater
  weight than those of all others. `ldpbeam plan` counts that.
- **Sampled coordinates of a vector** can all be the same one for fake users, so that their share of its
  reports is larger by the number of coordinates. `ldpbeam plan` counts that. They may also all claim one
  group, or answer one window of a panel: n is the number of users there.
"""


def attacks() -> Iterator[str]:
    """The attacks, as a table."""
    yield "| attack | what fake users send | their reports |"
    yield "| --- | --- | --- |"
    for name, sent in SENT.items():
        said = sent.format(searched=len(list(parts())))
        yield f"| {name} | {said} | {'are all alike' if name == ALIKE else 'vary'} |"


def wrapped(text: str) -> Iterator[str]:
    """The lines of a text, its paragraphs broken anew; headings, tables and lists stay."""
    for paragraph in text.strip("\n").split("\n\n"):
        plain = paragraph[0] not in "#|-"
        yield from textwrap.wrap(paragraph, 104, break_on_hyphens=False) if plain else paragraph.split("\n")
        yield ""


def page(made: list[Run], seeds: int) -> Iterator[str]:
    found = cells(made)
    text = PAGE.format(
        epsilon=EPSILON, users=USERS, buckets=BUCKETS, categories=CATEGORIES, keys=KEYS, measured=MEASURED,
        attacks="\n".join(attacks()), unseen=unseen_checked(made), missing=missing(made, seeds),
        whole=whole(), summary="\n".join(summary(found)), bounds=bounds_checked(found),
        further=beyond_means(found),
    )  # fmt: skip
    *lines, _ = wrapped(text)
    yield from lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", nargs="+", default=[""], help="only mechanisms whose name has one of these")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    made = runs(options.seeds, options.only)
    show(page(made, options.seeds or 10), options.write)
    if options.write is not None:
        measured = options.write.parent / MEASURED
        measured.parent.mkdir(exist_ok=True)
        measured.write_text(table(cells(made)), encoding="utf-8")


if __name__ == "__main__":
    main()
