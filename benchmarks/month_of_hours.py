"""A month of hourly reports of people whose clients remember their noise, and the ledger beside a dictionary.

Each person has one of 20 categories, and another one after 2% of the days. Some report in nearly every
hour, some hardly ever; 1% of the reports come twice, 0.5% are followed by another one, and 2% are in the file
of three hours later. The reports go through `ldpbeam estimate` over all files, through a scheduled run for
each day, and with `--stream` through `ldpbeam stream`.
`python -m benchmarks.month_of_hours --users 20000` prints each ledger beside what a dictionary says.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import os
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ldpbeam.command_line.main import main as ldpbeam
from ldpbeam.memoised.chains import instant_ratio, randomised_response
from ldpbeam.times import rfc3339

HOUR, DAYS, SIZE, CAP = 3_600_000, 30, 20, 9.0
STUDY = f"""\
study: month
attributes:
  x:
    domain: {{categories: {SIZE}}}
    services: {{app: {{mechanism: grr, epsilon: 0.2, lifetime_epsilon: 0.8, values_at_most: 12}}}}
    estimates: {{shares: {{estimator: inversion}}}}
windows: {{size: 1h, max_age: 100d}}
intervals: false
publish: {{windows: 1}}
ledger: {{period: {DAYS}d, cap: {CAP}}}
"""


def write_month(folder: Path, users: int, hours: int, start: int) -> Counter[int]:
    """Write a file per hour, and return how many reports each user is charged for, by a dictionary."""
    rng = np.random.default_rng(26)
    chain = randomised_response(SIZE, 0.8, 0.2)
    values = rng.integers(0, SIZE, users)
    each_value = np.broadcast_to(np.arange(SIZE), (users, SIZE))
    permanent = _answers(each_value, chain.permanent[0], rng)
    names = np.array([f"user-{i}" for i in range(users)])
    often = rng.random(users) ** 2
    charged: Counter[int] = Counter()
    waiting: list[Any] = [[] for _ in range(hours + 3)]
    for hour in range(hours):
        if hour % 24 == 0:
            values = np.where(rng.random(users) < 0.02, rng.integers(0, SIZE, users), values)
        who = np.flatnonzero(rng.random(users) < often)
        answers = _answers(permanent[who, values[who]], chain.instant[0], rng)
        again = rng.random(len(who)) < 0.01
        more = rng.random(len(who)) < 0.005
        who = np.concatenate([who, who[again], who[more]])
        answers = np.concatenate([answers, answers[again], _answers(answers[more], 0.5, rng)])
        charged.update(user for user, _ in set(zip(who.tolist(), answers.tolist(), strict=True)))
        times = start + hour * HOUR + rng.integers(0, HOUR, len(who))
        late = rng.random(len(who)) < 0.02
        for file, rows in ((hour, ~late), (hour + 3, late)):
            waiting[file].append((names[who[rows]], times[rows], answers[rows]))
        if hour == hours - 1:
            for rest in waiting[hour + 1 :]:
                waiting[hour] += rest
        ids, at, said = (np.concatenate(parts) for parts in zip(*waiting[hour], strict=True))
        table = pa.table({"user_id": ids, "event_time": at, "payload": said.astype(np.uint32)})
        pq.write_table(table, folder / f"{hour:04d}.parquet")
        waiting[hour] = None
    return charged


def _answers(given: Any, kept: float, rng: np.random.Generator) -> Any:
    other = (given + rng.integers(1, SIZE, given.shape)) % SIZE
    return np.where(rng.random(given.shape) < kept, given, other)


def expected(charged: Counter[int]) -> dict[str, Any]:
    """The ledger of the one period, from how many reports each user is charged for."""
    instant = math.log(instant_ratio(SIZE, 0.8, 0.2))
    values = {user: round(min(n * 0.2, 12 * 0.8), 9) for user, n in charged.items()}
    changes = {user: round(n * instant, 9) for user, n in charged.items()}
    return {
        "users": len(values),
        "reports": charged.total(),
        "users_over_cap": sum(epsilon > CAP for epsilon in values.values()),
        "most": (max(values.values()), max(changes.values())),
        "spent": (values, changes),
    }


def differences(entry: dict[str, Any], wanted: dict[str, Any]) -> int:
    """In how many of its figures an entry of the ledger differs from the dictionary."""
    wrong = sum(entry[name] != wanted[name] for name in ("users", "reports", "users_over_cap"))
    for line, spent in zip(("about_values", "changes_included"), wanted["spent"], strict=True):
        each = np.sort(np.array(list(spent.values())))
        for level in entry[line]:
            wrong += int(np.searchsorted(each, level["at_most"], side="right")) != level["users"]
        wrong += entry[line][-1]["at_most"] != each[-1]
    return int(wrong)


def run(*arguments: object) -> tuple[Any, float]:
    """What a command prints with --json, its last line, and the seconds that it takes."""
    out, began = io.StringIO(), time.perf_counter()
    with contextlib.redirect_stdout(out):
        code = ldpbeam([*map(str, arguments), "--json", "--quiet"])
    assert code in (0, 3), (code, arguments)
    return json.loads(out.getvalue().splitlines()[-1]), time.perf_counter() - began


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--days", type=int, default=DAYS)
    parser.add_argument("--span", type=int, default=1, help="the hours of a scheduled run")
    parser.add_argument("--stream", action="store_true", help="also through a stream")
    options = parser.parse_args()
    # The last period that has ended.
    start = (int(time.time() * 1000) // (DAYS * 24 * HOUR) - 1) * DAYS * 24 * HOUR
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        study, key, reports = folder / "study.yaml", folder / "key", folder / "reports"
        study.write_text(STUDY)
        key.write_bytes(os.urandom(32))
        key.chmod(0o600)
        reports.mkdir()
        wanted = expected(write_month(reports, options.users, 24 * options.days, start))
        print(
            f"dictionary: {wanted['users']:,} users, {wanted['reports']:,} reports, "
            f"{wanted['users_over_cap']:,} over {CAP:g}, at most {wanted['most']}",
            flush=True,
        )
        named = ("--attribute", "x", "--service", "app", "--user-id-key-file", key, "--study", study)
        whole, seconds = run("estimate", *named, "--input", reports / "*", "--output", folder / "whole")
        _tell("batch", whole["periods"], wanted, seconds)
        seconds, last = 0.0, 0.0
        for first in range(0, 24 * options.days, options.span):
            # What comes late is in the file of a later hour, which is read by that hour's run.
            ends = (rfc3339(start + (first + more) * HOUR) for more in (0, options.span))
            span = tuple(word for pair in zip(("--from", "--to"), ends, strict=True) for word in pair)
            files = [reports / f"{hour:04d}.parquet" for hour in range(first, first + options.span)]
            for _ in range(2 if first == 2 * options.span else 1):
                ran, last = run("estimate", *named, *span, "--input", *files, "--output", folder / "hours")
                seconds += last
        _tell(f"scheduled, one run again, {last:.1f} s the last", ran["periods"], wanted, seconds)
        if options.stream:
            ended = ("--stop-when-idle", "5s", "--max-disorder", "40d")
            _, seconds = run(
                "stream", *named, *ended, "--input", reports / "*", "--output", folder / "stream"
            )
            added, more = run("ledger", folder / "stream")
            _tell(f"stream ({more:.1f} s of it ldpbeam ledger)", added["periods"], wanted, seconds + more)


def _tell(what: str, periods: Any, wanted: dict[str, Any], seconds: float) -> None:
    entry = periods[0]
    print(
        f"{what}: {len(periods)} period, {entry['users']:,} users, {entry['reports']:,} reports, "
        f"{entry['users_over_cap']:,} over the cap, {differences(entry, wanted)} figures differ, "
        f"{seconds:.1f} s",
        flush=True,
    )


if __name__ == "__main__":
    main()
