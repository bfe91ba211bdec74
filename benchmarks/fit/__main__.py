"""Measure the tests of fit, and write docs/fit.md.

    python -m benchmarks.fit [--seconds 600] [--write docs/fit.md]

Every run that was simulated is a line in build/fit.jsonl, so the command may be stopped and started again: it
goes on where it was. With ``--seconds`` it stops by itself. The page is written from what there is.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.fit.runs import (
    CLEAN,
    POPULATIONS,
    STREAM_HOURS,
    STREAM_REPORTS,
    UNSEEN,
    WRONG,
    clean,
    clean_hour,
    reports_until_seen,
)
from ldpbeam.fit import FALSE_ALARMS

RUNS = Path("build/fit.jsonl")
#: Clean runs in all, and their users.
CLEAN_RUNS, CLEAN_USERS = 2000, 100_000
#: Wrong runs of each kind and number of users.
WRONG_RUNS, WRONG_USERS = 10, (100_000, 30_000, 10_000, 3_000)

#: The services of fleets that change their epsilon during a stream.
CHANGED = ("SW, PM joined", "OLH, 50 categories", "OUE, 50 categories", "HRR, 50 categories", "Laplace")
#: Why some mistakes are not seen.
UNIDENTIFIABLE = """\
A test can only refute counts that no distribution of values explains. If wrong reports are
distributed as right reports of other people, no test tells them apart, however many reports
there are.

- **Noisier reports of `grr`**, also if clients perturb twice, are right reports of people who are
  spread more evenly. The same holds for `haar` of two leaves, `privkv` and `pckv_grr`. It holds for
  `stochastic_rounding` only if clients perturb twice: its reports of another epsilon are dead letters.
- **Clients that perturb a number twice** send right reports of another value: of their first report,
  brought into the domain. (Reports of `olh` and `hadamard` are no values. Clients that perturb these
  again send reports of a smaller epsilon, which is seen.)
- **Clients that all answer one value**, or a wrong one, send right reports of people who have it.
- **Categories in another order, or a domain of another width**: the reports are those of other values.
- **Two services of `stochastic_rounding` with different people** look like people who all have one
  value.
- **Fake users who perturb a value of their choice** are people who have it, and so are those who
  draw seeds, rows and other bits as everybody does and choose only their answer, as long as there are
  values that give such counts. The fixed reports above are those of clumsy ones. [Fake
  users](fake_users.md) says how far they move an estimate.
- **Clients that remember no noise though the study says so**, if people are spread evenly over the
  categories: they look like people who change their values. (Clients that remember
  noise or repeat reports, though the study says that noise is fresh, look like people who keep their values.)
  [What the tests see](memoised.md#do-clients-remember-what-the-tests-see) says which fleets they find."""

Key = tuple[str, str, int, int]


def wanted() -> Iterator[Key]:
    """(kind, what, users, seed) of every run."""
    kinds = itertools.cycle(itertools.product(CLEAN, POPULATIONS))
    cleans = [(" / ".join(kind), seed) for seed, kind in zip(range(CLEAN_RUNS), kinds, strict=False)]
    for what, seed in itertools.product({**WRONG, **UNSEEN}, range(WRONG_RUNS)):
        yield "wrong", what, WRONG_USERS[0], seed
    for what, seed in cleans:
        yield "clean", what, CLEAN_USERS, seed
    for services, seed in itertools.product(CHANGED, range(WRONG_RUNS)):
        yield "changed", services, 0, seed
    for hour in range(STREAM_HOURS):
        yield "hour", "", STREAM_REPORTS, hour
    for users, what, seed in itertools.product(WRONG_USERS[1:], WRONG, range(WRONG_RUNS)):
        yield "wrong", what, users, seed


def simulate(key: Key) -> tuple[bool, float]:
    """(whether a run is flagged, the least p-value times the number of tests).

    Of a fleet that changes its epsilon, the second is how many reports it took.
    """
    kind, what, users, seed = key
    if kind == "hour":
        return clean_hour(seed)
    if kind == "changed":
        reports = reports_until_seen(what, seed)
        return reports > 0, float(reports)
    if kind == "clean":
        services, _, population = what.partition(" / ")
        return clean(services, population, users, seed)
    return {**WRONG, **UNSEEN}[what](users, seed)


def page(found: dict[Key, tuple[bool, float]]) -> str:
    """The page of what was measured."""
    by_services: dict[str, list[tuple[bool, float]]] = defaultdict(list)
    wrong: dict[tuple[str, int], list[bool]] = defaultdict(list)
    hours: list[bool] = []
    changes: dict[str, list[float]] = defaultdict(list)
    for (kind, what, users, _), (flag, p_value) in found.items():
        if kind == "clean":
            by_services[what.partition(" / ")[0]].append((flag, p_value))
        elif kind == "hour":
            hours.append(flag)
        elif kind == "changed":
            changes[what].append(p_value if flag else math.inf)
        else:
            wrong[what, users].append(flag)
    cleans = list(itertools.chain.from_iterable(by_services.values()))
    alarms = sum(flag for flag, _ in cleans)
    lines = [
        "# What the tests of fit see",
        "",
        "Written by `python -m benchmarks.fit --write docs/fit.md`, which can be stopped and started again.",
        "Epsilon is 1, and numbers have 256 buckets. A run on this page is all tests of one statistic. As in",
        "`ldpbeam estimate`, a run has a warning if a test is significant at "
        f"{FALSE_ALARMS:.0%} after Holm's correction,",
        "or if it has reports that the mechanism cannot send. It is then flagged.",
        "",
        "## False alarms",
        f"{alarms} of {len(cleans):,} clean runs of {CLEAN_USERS:,} users are flagged"
        f"{_upper(alarms, len(cleans))}. The stated rate is at most {FALSE_ALARMS:.0%}.",
        f"The populations are {', '.join(POPULATIONS)}.",
        "",
        "| services | runs | flagged | corrected p below 0.1 |",
        "| --- | --- | --- | --- |",
    ]
    for services in CLEAN:
        own = by_services.get(services, [])
        low = sum(p_value < 0.1 for _, p_value in own)
        lines.append(f"| {services} | {len(own):,} | {sum(flag for flag, _ in own)} | {low} |")
    sizes = sorted(WRONG_USERS)
    lines += [
        "",
        "## Wrong reports",
        "The table says how many runs are flagged, by the number of users. The population is",
        "Beta(2, 5), and the study says epsilon 1.",
        "",
        f"| what is wrong | {' | '.join(f'{n:,}' for n in sizes)} |",
        f"| --- |{' --- |' * len(sizes)}",
    ]
    for what in WRONG:
        cells = [wrong.get((what, n), []) for n in sizes]
        lines.append(f"| {what} | {' | '.join(f'{sum(own)} of {len(own)}' for own in cells)} |")
    lines += [
        "",
        "## Streams",
        f"{sum(hours):,} of {len(hours):,} clean panes of one stream of hours are flagged. They have "
        f"{STREAM_REPORTS:,} users each,",
        "of the services above in turn. The stated rate is at most "
        f"{FALSE_ALARMS:.0%} of streams, in their whole life.",
        "",
        "A fleet changes its epsilon from 1 to 0.8 at noon, twelve hours after the stream began. Its windows",
        "have early panes after each 1,000 users. The table says after how many users of the changed fleet",
        "a pane is flagged: the median and the largest of ten streams. Reports that a service of epsilon 1",
        "cannot have are dead letters, with a warning of their own, and are not counted here.",
        "",
        "| services | median | largest |",
        "| --- | --- | --- |",
        *(f"| {what} | {_reports(own)} |" for what, own in sorted(changes.items())),
        "",
        "## What no test can see",
        UNIDENTIFIABLE,
        "",
        f"| what is wrong | {WRONG_USERS[0]:,} |",
        "| --- | --- |",
    ]
    for what in UNSEEN:
        runs = wrong.get((what, WRONG_USERS[0]), [])
        lines.append(f"| {what} | {sum(runs)} of {len(runs)} |")
    return "\n".join(lines) + "\n"


def _reports(needed: Sequence[float]) -> str:
    """The median and the largest number of reports, in two cells."""
    both = sorted(needed)[(len(needed) - 1) // 2], max(needed)
    return " | ".join("more than 200,000" if math.isinf(one) else f"{one:,.0f}" for one in both)


def _upper(alarms: int, runs: int) -> str:
    """The 95% upper bound of a rate, in words."""
    from scipy.stats import beta

    if not runs:
        return ""
    upper = float(beta.ppf(0.95, alarms + 1, runs - alarms)) if alarms < runs else 1.0
    return f", so with 95% confidence at most {upper:.2%} of such runs are"


def main() -> None:
    """Simulate what is missing, and write the page where asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after this time")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    RUNS.parent.mkdir(exist_ok=True)
    lines = RUNS.read_text(encoding="utf-8").splitlines() if RUNS.exists() else []
    found: dict[Key, tuple[bool, float]] = {}
    for line in lines:
        kind, what, users, seed, flag, p_value = json.loads(line)
        found[kind, what, users, seed] = flag, p_value
    started = time.monotonic()
    with RUNS.open("a", encoding="utf-8") as stream:
        for key in wanted():
            if time.monotonic() - started > options.seconds:
                break
            if key not in found:
                found[key] = simulate(key)
                stream.write(json.dumps([*key, *found[key]]) + "\n")
                stream.flush()
    text = page(found)
    print(text)
    if options.write is not None:
        options.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
