"""Random studies, and how often the intervals of their estimates hold the truth.

    python -m benchmarks.sweep --first 0 [--studies 2000] [--minutes 60] [--rows FILE]

A study's number draws its domain, mechanism, epsilon, people, services, groups and options, so that a study
is made again with ``--first N --studies 1``. Exit code 1: a kind of certain interval holds less than 80% in
some study, or a study failed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import ldpbeam as ldp
from benchmarks.pages import HELP, show, table
from ldpbeam.certainty import CERTAIN, IF_SMOOTH
from ldpbeam.domains import Floats
from ldpbeam.errors import StudyError
from ldpbeam.schemas.outputs.records import EstimateRecord

RUNS = 6
#: A study has a fault if its certain intervals of a kind hold less, in AGAIN times the runs, too: four of
#: 18 intervals at 95% miss by chance in every 92nd study.
LEAST, AGAIN = 0.8, 5
#: A kind of so few intervals says nothing of one study.
FEWEST = 16
OF_NUMBERS = (
    "square_wave", "piecewise", "stochastic_rounding", "hybrid", "laplace", "gaussian", "general_wave",
    "hierarchy", "haar", "binned",
)  # fmt: skip
OF_CATEGORIES = ("grr", "oue", "sue", "olh", "hadamard", "block_hadamard", "subset_selection")
OF_KEYS = ("pckv_ue", "pckv_grr", "privkv")
REMEMBER = {"square_wave", "piecewise", "stochastic_rounding", "grr", "oue", "sue", "olh"}
EPSILONS, PEOPLE = (0.5, 1.0, 2.0, 4.0), (1_500, 6_000)

#: When all report, in milliseconds since 1970, if the study has windows.
TIME = 1_795_171_800_000

Held = Mapping[tuple[str, str], list[bool]]


def services(draw: np.random.Generator, names: tuple[str, ...], options: dict[str, Any]) -> dict[str, Any]:
    """One to three services of random mechanisms; one of them may remember its noise."""
    many = int(draw.choice([1, 1, 1, 2, 3])) if not options.get("users") else 1
    chosen = {}
    for place in range(many):
        mechanism, epsilon = str(draw.choice(names)), float(draw.choice(EPSILONS))
        chosen[f"s{place}"] = {"mechanism": mechanism, "epsilon": epsilon}
        if mechanism == "gaussian":
            chosen[f"s{place}"]["delta"] = 1e-6
        if many == 1 and not options.get("users") and mechanism in REMEMBER and draw.random() < 0.15:
            chosen[f"s{place}"]["lifetime_epsilon"] = 2.0 * epsilon
            options["windows"] = {"size": "1h"}
    return chosen


def numbers(draw: np.random.Generator, options: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """An attribute of numbers, and what draws its people."""
    low = float(draw.choice([-50, 0, 1, 0.5, 1000]))
    steps = int(draw.choice([1, 2, 6, 11, 12, 23, 30, 59, 75, 100, 180, 364]))
    step, stepped = float(draw.choice([1, 0.25, 0.1, 5])), bool(draw.random() < 0.5)
    high = round(low + steps * step, 10)
    domain: dict[str, Any] = {"numeric": [low, high]}
    if stepped:
        domain["step"] = step
    elif low > 0.0 and draw.random() < 0.3:
        domain["scale"] = "log"
    cut = sorted(draw.choice(steps + 1, 3, replace=False)) if steps >= 2 else [0, steps]
    ranges = [[round(low + a * step, 10), round(low + b * step, 10)] for a, b in itertools.pairwise(cut)]
    (a, b), mixed, spikes = draw.uniform(0.6, 6, 2), draw.random(), int(draw.choice([0, 0, 1, 3, 9]))

    def people(n: int, rng: np.random.Generator) -> Floats:
        u = np.where(rng.random(n) < mixed, rng.beta(a, b, n), rng.beta(b + 1, a, n))
        if spikes:
            u = np.where(rng.random(n) < 0.6, rng.integers(0, spikes, n) / spikes, u)
        at = np.minimum(np.floor(u * (steps + 1)), steps) if stepped else steps * u
        return np.asarray(np.clip(np.round(low + step * at, 10), low, high))

    # Bins of a hierarchy are more than most steps; noise with a tail has no scale.
    names = OF_NUMBERS[:7] if stepped else OF_NUMBERS[:4] if "scale" in domain else OF_NUMBERS
    return {"domain": domain, "services": services(draw, names, options), "ranges": ranges}, people


def categories(draw: np.random.Generator, options: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """An attribute of categories, and what draws its people."""
    d = int(draw.choice([2, 3, 5, 12, 40, 150]))
    shares = draw.dirichlet(np.full(d, draw.choice([0.2, 1.0, 5.0])))
    attribute = {"domain": {"categories": d}, "services": services(draw, OF_CATEGORIES, options), "top": 1}
    return attribute, lambda n, rng: rng.choice(d, n, p=shares)


def keys(draw: np.random.Generator, options: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """An attribute of keys and their numbers, and what draws its people."""
    d, centres = int(draw.choice([3, 12])), draw.random(12)
    names, chance = [f"k{place}" for place in range(d)], draw.uniform(0.1, 0.7, d)
    mechanism: dict[str, Any] = {
        "mechanism": str(draw.choice(OF_KEYS)),
        "epsilon": float(draw.choice(EPSILONS)),
    }
    if mechanism["mechanism"].startswith("pckv"):
        # People with more keys than that count less.
        mechanism["padding"] = d

    def people(n: int, rng: np.random.Generator) -> list[dict[str, float]]:
        have, values = rng.random((n, d)) < chance, np.clip(rng.normal(centres[:d], 0.2, (n, d)), 0.0, 1.0)
        return [
            {names[k]: float(row[k]) for k in np.flatnonzero(own)}
            for own, row in zip(have, values, strict=True)
        ]

    return {"domain": {"keys": names, "values": [0.0, 1.0]}, "services": {"s0": mechanism}}, people


def judged(record: EstimateRecord, people: Any, attribute: Mapping[str, Any], held: Held) -> None:
    """Add whether each interval of an estimate holds the truth, by kind and condition."""
    truth, domain = dict[str, Floats](), attribute["domain"]
    if "keys" in domain:
        own = [np.array([one[key] for one in people if key in one]) for key in domain["keys"]]
        truth["frequencies"] = np.array([len(values) / len(people) for values in own])
        truth["key_means"] = np.array([values.mean() if len(values) else np.nan for values in own])
    elif "categories" in domain:
        truth["frequencies"] = np.bincount(people, minlength=domain["categories"]) / len(people)
    else:
        high, step = domain["numeric"][1], domain.get("step", 0.0)
        room = 1e-7 * step
        truth["mean"], truth["variance"] = np.array([people.mean()]), np.array([people.var()])
        truth["quantiles"] = np.quantile(
            people, [float(q) for q in record.quantiles or ()], method="inverted_cdf"
        )
        inside = [
            (people >= a - room) & ((people <= b + room) if step or b >= high else people < b)
            for a, b in attribute["ranges"]
        ]
        truth["ranges"] = np.mean(inside, axis=1)
    intervals = record.intervals
    assert intervals is not None
    if "numeric" in domain:
        truth["cdf"] = np.searchsorted(np.sort(people), np.array(intervals.at) + room, "right") / len(people)
        if step and record.distribution is not None:
            edges = np.array(record.bucket_edges)
            truth["distribution"] = np.histogram(people, edges)[0] / len(people)
    for (name, of), condition in ((pair, c) for pair in truth.items() for c in (CERTAIN, IF_SMOOTH)):
        ends = intervals.of(name, condition) if name in intervals.ends.get(condition, {}) else None
        if ends is not None:
            slack = 1e-7 * max(1.0, float(np.nanmax(np.abs(of), initial=0.0)))
            known = ~np.isnan(of)
            held[name, condition].extend(
                ((ends[:, 0] - slack <= of) & (of <= ends[:, 1] + slack))[known].tolist()
            )


def sent(client: ldp.Client, people: Any, more: dict[str, Any], rng: np.random.Generator) -> Any:
    """The reports of people to a service; those who remember their noise have a device each."""
    if client.attribute.versions[0].lifetime is None:
        return client.reports(people, **more)
    domain = client.attribute.domain
    scaled = domain.to_unit(people) if isinstance(domain, ldp.Numeric) else people
    keys = [rng.bytes(32) for _ in range(len(people))]
    (payloads,) = client.payloads(scaled, np.full(len(people), TIME), keys)
    columns = {"user_id": more["user_ids"], "payload": payloads.payloads, "service": client.service}
    columns |= {"group": more["groups"]} if "groups" in more else {}
    return columns | {"attribute": "x", "event_time": np.full(len(people), TIME)}


def study_of(number: int, runs: int) -> dict[str, Any]:
    """A row: the study of a number, and how often its intervals hold."""
    draw, options = np.random.default_rng(number), dict[str, Any]()
    kind = (numbers, numbers, numbers, categories, keys)[int(draw.integers(5))]
    if draw.random() < 0.15 and kind is not keys:
        options["users"] = "none"
    groups = ["", "a", "b"][: int(draw.choice([1, 1, 3]))]
    attribute, people_of = kind(draw, options)
    if len(groups) > 1:
        options["groups"] = {"field": "group"}
    n, held = int(draw.choice(PEOPLE)), defaultdict[tuple[str, str], list[bool]](list)
    row = {"number": number, "attribute": attribute, "options": options, "groups": len(groups), "n": n}
    try:
        study = ldp.Study.from_dict(study="sweep", attributes={"x": attribute}, **options)
    except StudyError as error:
        return row | {"refused": str(error)}
    for run in range(runs):
        rng = np.random.default_rng([number, run])
        people, group = people_of(n, rng), rng.choice(groups, n)
        more: dict[str, Any] = {"groups": group.tolist()} if len(groups) > 1 else {}
        if "users" not in options:
            more["user_ids"] = [f"u{place}" for place in range(n)]
        if "windows" in options:
            more["event_times"] = TIME
        remembering = any("lifetime_epsilon" in service for service in attribute["services"].values())
        key = rng.bytes(32) if remembering else None
        tables = [
            sent(ldp.Client(study, "x", name, rng=rng, device_key=key), people, more, rng)
            for name in attribute["services"]
        ]
        for record in ldp.estimate(study, tables):
            chosen = np.flatnonzero(group == (record.group or ""))
            own = [people[place] for place in chosen] if isinstance(people, list) else people[chosen]
            judged(record, own, attribute, held)
    return row | {"held": {" ".join(key): [float(np.mean(of)), len(of)] for key, of in held.items() if of}}


COLUMNS = (
    "number", "interval", "studies", "intervals", "held", "below 0.8", "worst study", "held by the worst"
)  # fmt: skip


def too_low(row: Mapping[str, Any]) -> list[str]:
    """The kinds of certain intervals that hold too seldom in a study."""
    held = {kind: share for kind, (share, many) in row.get("held", {}).items() if many >= FEWEST}
    return [kind for kind, share in held.items() if share < LEAST and kind.endswith(CERTAIN)]


def kinds(rows: Iterable[Mapping[str, Any]]) -> Iterator[list[object]]:
    """A row for each kind of number and condition."""
    by_kind = defaultdict[str, list[tuple[float, int, int]]](list)
    for row in rows:
        for kind, (share, many) in row.get("held", {}).items():
            by_kind[kind].append((share, many, row["number"]))
    for kind, found in sorted(by_kind.items()):
        shares, many, _ = np.array(found).T
        enough = [each for each in found if each[1] >= FEWEST]
        worst = min(enough, default=(np.nan, 0, ""))
        name, condition = kind.rsplit(" ", 1)
        yield [
            name.replace("_", " "), condition.replace("_", " "), len(found), int(many.sum()),
            f"{np.average(shares, weights=many):.3f}", sum(each[0] < LEAST for each in enough), worst[2],
            f"{worst[0]:.3f}",
        ]  # fmt: skip


def main() -> int:
    """Run studies, and show the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--first", type=int, default=0, help="the number of the first study")
    parser.add_argument("--studies", type=int, default=2_000)
    parser.add_argument("--minutes", type=float, default=np.inf, help="stop after about so long")
    parser.add_argument("--rows", type=Path, help="add a line of JSON per study to this file")
    parser.add_argument("--write", type=Path, help=HELP)
    given = parser.parse_args()
    end, rows = time.monotonic() + 60.0 * given.minutes, []
    for number in range(given.first, given.first + given.studies):
        if time.monotonic() > end:
            break
        row = study_of(number, RUNS)
        rows.append(study_of(number, AGAIN * RUNS) if too_low(row) else row)
        if given.rows:
            with given.rows.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
    show([table("sweep", COLUMNS, kinds(rows))], given.write)
    low = [f"{kind} of {row['number']}" for row in rows for kind in too_low(row)]
    refused = sum("refused" in row for row in rows)
    print(f"{len(rows)} studies, of which {refused} are refused; too low: {low}")
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
