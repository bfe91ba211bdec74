"""Tests of noise that clients remember: false alarms, and how many users it takes to see a wrong fleet.

    python -m benchmarks.memoised.remembered_noise [--seconds 600] [--write docs/memoised.md]

Every run is a line in build/remembered_noise.jsonl, so the command may be stopped and started again.
With ``--seconds`` it stops by itself. Reports are drawn from the constants of the two steps of a client.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from benchmarks import pages
from benchmarks.memoised.day import CATEGORIES, Cell, Inputs
from benchmarks.memoised.joined import population, sent_by
from ldpbeam.attributes import ServiceVersion
from ldpbeam.domains import Integers
from ldpbeam.fit import FALSE_ALARMS, flagged
from ldpbeam.over_time.joined_windows import JoinedSupports, Table
from ldpbeam.over_time.remembered_noise import noise_p_values

MECHANISMS = ("grr", "oue", "olh")
LIFETIME, EPSILON = 2.0, 1.0
WINDOWS, PEOPLE = (2, 4, 8, 24), (500, 2_000, 10_000, 50_000)
VALUES = (
    "one value",
    "another value with 2% a window",
    "another value from noon on",
    "half: one value, half: a new one in each window",
    "the first category: one value, others: a new one in each window",
    "never the same value in two windows",
    "all the first category",
)
#: What the study says and what clients do, by what is wrong.
WRONG = {
    "fresh noise, study: remembered": (True, "fresh", VALUES[0]),
    "remembered noise, study: fresh": (False, "remembered", VALUES[0]),
    "one report for ever, study: remembered": (True, "one report", VALUES[0]),
    "one report for ever, study: fresh": (False, "one report", VALUES[0]),
    "fresh noise, study: remembered, other values from noon on": (True, "fresh", VALUES[2]),
    "remembered noise, study: fresh, other values from noon on": (False, "remembered", VALUES[2]),
}
CLEAN_RUNS, WRONG_RUNS = 4_200, 20
RUNS = Path("build/remembered_noise.jsonl")


class Setting(NamedTuple):
    """A fleet, and what its study says."""

    mechanism: str
    windows: int
    people: int
    remembered: bool
    clients: str
    values: str

    @property
    def version(self) -> ServiceVersion:
        """The service of the study."""
        lifetime = self.cell.lifetime
        if self.remembered:
            return ServiceVersion("s", "", lifetime.window, lifetime)
        return ServiceVersion("s", "", lifetime.named)

    @property
    def cell(self) -> Cell:
        """The setting as one of :mod:`benchmarks.memoised.joined`."""
        remember = "all" if self.clients == "remembered" else "none"
        return Cell(self.mechanism, (LIFETIME, EPSILON), self.people, remember, self.values)


def values_of(setting: Setting, windows: int, rng: Generator) -> Integers:
    """The value of each person in each window, shape (people, windows)."""
    n, shares = setting.people, population(setting.cell)
    found = np.repeat(rng.choice(CATEGORIES, n, p=shares)[:, None], windows, axis=1)
    if setting.values == VALUES[2]:
        found[:, windows // 2 :] = rng.choice(CATEGORIES, n, p=shares)[:, None]
    if setting.values in VALUES[3:5]:
        changing = rng.random(n) < 0.5 if setting.values == VALUES[3] else found[:, 0] > 0
        found[changing] = rng.choice(CATEGORIES, (int(changing.sum()), windows), p=shares)
    if setting.values == VALUES[5]:
        found = (found + np.arange(windows)) % CATEGORIES
    if setting.values == VALUES[6]:
        found[:] = 0
    for window in range(1, windows) if setting.values == VALUES[1] else ():
        changed = np.flatnonzero(rng.random(n) < 0.02)
        found[changed, window:] = rng.choice(CATEGORIES, len(changed), p=shares)[:, None]
    return found


def drawn(setting: Setting, rng: Generator) -> JoinedSupports:
    """What the users of a fleet sent in all windows."""
    n, windows = setting.people, setting.windows
    times = windows if setting.clients == "one report" else 1
    values = np.arange(n)[:, None] * CATEGORIES + values_of(setting, windows // times, rng)
    keys, hours = np.unique(values.ravel(), return_counts=True)
    inputs = Inputs(keys // CATEGORIES, keys % CATEGORIES, hours)
    sent = sent_by(setting.cell, setting.cell.lifetime, inputs, rng)
    users = np.zeros((CATEGORIES, windows + 1, windows + 1), dtype=np.int64)
    every = np.arange(CATEGORIES), sent.counts * times, np.full(1, windows)
    np.add.at(users, every, 1)
    return JoinedSupports(Table.of(users))


def run(setting: Setting, place: int) -> list[str]:
    """The kinds of tests that flag a run."""
    rng = np.random.default_rng([zlib.crc32(str(tuple(setting)).encode()), place])
    found = noise_p_values(setting.version, drawn(setting, rng))
    assert found is not None
    _, p_values = found
    flags = flagged(list(p_values.values()))
    return [kind for kind, flag in zip(p_values, flags, strict=True) if flag]


def clean_settings() -> list[Setting]:
    """The settings of clean runs, which take turns."""
    sizes = [(2, 500), (24, 2_000), (4, 60), (8, 2_000), (2, 10_000), (24, 60), (4, 500)]
    return [
        Setting(mechanism, windows, people, remembered, "remembered" if remembered else "fresh", values)
        for (windows, people), values, remembered, mechanism in itertools.product(
            sizes, VALUES, (True, False), MECHANISMS
        )
    ]


Key = tuple[str, str, int]


def simulate(seconds: float) -> dict[Key, list[str]]:
    """What is flagged by kind, setting and place of all runs; those that are missing have so many seconds."""
    RUNS.parent.mkdir(exist_ok=True)
    lines = RUNS.read_text(encoding="utf-8").splitlines() if RUNS.exists() else []
    found: dict[Key, list[str]] = {}
    for line in lines:
        kind, name, place, flags = json.loads(line)
        found[kind, name, place] = flags
    until = time.monotonic() + seconds
    with RUNS.open("a", encoding="utf-8") as stream:

        def add(kind: str, setting: Setting, place: int) -> None:
            key = (kind, str(tuple(setting)), place)
            if key not in found and time.monotonic() < until:
                found[key] = run(setting, place)
                stream.write(json.dumps([*key, found[key]]) + "\n")
                stream.flush()

        for place, setting in zip(range(CLEAN_RUNS), itertools.cycle(clean_settings()), strict=False):
            add("clean", setting, place)
        for people, windows, what, mechanism in itertools.product(PEOPLE, WINDOWS, WRONG, MECHANISMS):
            fewer = [_seen(found, what, mechanism, windows, n) for n in PEOPLE if n < people]
            if not any(seen == (WRONG_RUNS, WRONG_RUNS) for seen in fewer):
                for place in range(WRONG_RUNS):
                    add("wrong", _wrong(what, mechanism, windows, people), place)
    return found


def _wrong(what: str, mechanism: str, windows: int, people: int) -> Setting:
    remembered, clients, values = WRONG[what]
    return Setting(mechanism, windows, people, remembered, clients, values)


def _seen(
    found: dict[Key, list[str]], what: str, mechanism: str, windows: int, people: int
) -> tuple[int, int]:
    """(how many runs of a wrong fleet are flagged, how many there are)."""
    name = str(tuple(_wrong(what, mechanism, windows, people)))
    flags = [found["wrong", name, i] for i in range(WRONG_RUNS) if ("wrong", name, i) in found]
    return sum(bool(kinds) for kinds in flags), len(flags)


def section(seconds: float) -> Iterator[str | pages.Table]:
    """The part of the page, line by line."""
    found = simulate(seconds)
    yield from HEAD.splitlines()
    names = {str(tuple(setting)): setting for setting in clean_settings()}
    clean: dict[tuple[str, str, str], list[bool]] = defaultdict(list)
    for (kind, name, _), flags in found.items():
        if kind == "clean":
            setting = names[name]
            clean[setting.values, setting.mechanism, setting.clients].append(bool(flags))
    every = list(itertools.chain.from_iterable(clean.values()))
    yield f"{sum(every)} of {len(every):,} clean runs are flagged."
    yield f"The stated rate is at most {FALSE_ALARMS:.0%}."
    yield ""
    kinds = list(itertools.product(MECHANISMS, ("fresh", "remembered")))
    rows = []
    for values in VALUES:
        own = [clean[values, mechanism, clients] for mechanism, clients in kinds]
        rows.append(f"| {values} | {' | '.join(f'{sum(flags)} of {len(flags)}' for flags in own)} |")
    yield false_alarms(rows)
    yield from HEAD_OF_WRONG.splitlines()
    rows = []
    for what, mechanism, windows in itertools.product(WRONG, MECHANISMS, WINDOWS):
        cells = (_seen(found, what, mechanism, windows, n) for n in PEOPLE)
        told = (f"{seen} of {runs}" if runs else "" for seen, runs in cells)
        rows.append(f"| {what} | {mechanism} | {windows} | {' | '.join(told)} |")
    yield wrong_fleets(rows)


def false_alarms(rows: Sequence[str]) -> pages.Table:
    """All rows, none of which is on the page."""
    kinds = itertools.product(MECHANISMS, ("fresh", "remembered"))
    names = f"| values | {' | '.join(f'{mechanism}, {clients}' for mechanism, clients in kinds)} |"
    lines = (names, "| --- " * len(pages.split(names)) + "|", *rows)
    return pages.Table("memoised_false_alarms", lines, lambda row: False)


def wrong_fleets(rows: Sequence[str]) -> pages.Table:
    """All rows; the page has those of one number of windows."""
    names = f"| clients | mechanism | windows | {' | '.join(f'{n:,}' for n in PEOPLE)} |"
    lines = (names, "| --- " * (3 + len(PEOPLE)) + "|", *rows)
    return pages.Table(
        "memoised_wrong_fleets", lines, lambda row: row["windows"] == str(WINDOWS[2]), ("windows",)
    )


HEAD = f"""\
## Do clients remember? What the tests see
`python -m benchmarks.memoised.remembered_noise --write docs/memoised.md` writes this section, and can be
stopped and started again. Windows are [joined](over_time.md#joined-windows). Epsilon is {EPSILON:g} a
window and {LIFETIME:g} for life. Values have {CATEGORIES} categories, with shares in proportion to 1/k.
Every user has a report in each window. The benchmark draws counts by user from the constants of the two
steps; `tests/over_time/test_remembered_noise.py` takes reports of clients through the pipeline. [Decision
52](decisions/README.md) says how the tests work.

### False alarms
A run is the tests of one day. In clean runs, clients do what the study says. They have 2 to 24 windows
and 60 to 10,000 users. The file below says how many of them are flagged, by values.
"""
HEAD_OF_WRONG = """
### Wrong fleets
The table says how many runs are flagged, by the number of users, which is the name of a column. Users
have one value in all windows, unless another is named. A cell is empty if all runs of fewer users are
flagged, or if it was not run. The page has 8 windows; the file also has 2, 4 and 24.

"""


def main() -> None:
    """Print the page, and write it where asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after this time")
    parser.add_argument("--write", type=Path, help="where the page is written")
    given = parser.parse_args()
    pages.renew(section(given.seconds), given.write)


if __name__ == "__main__":
    main()
