"""The ledger over periods of a stream: a killed run and the next one, beside a dictionary."""

from __future__ import annotations

import json
import random
import time
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from stream_runs import streaming
from support.ledger_model import HOUR, PRICES, TEXT, Run, lines, report, spent

pytestmark = pytest.mark.slow

DAY = 24 * HOUR
#: Two hours before the end of a period of a day, a week ago.
START = int(time.time() * 1000) // DAY * DAY - 7 * DAY - 2 * HOUR


def sent() -> list[dict[str, Any]]:
    """Reports in no order of time, some twice, and some months too old for a window."""
    rng = random.Random(26)
    kinds = sorted(PRICES)
    each = [
        report(rng.choice(kinds), user, rng.randrange(5), rng.randrange(4), "n", START - months * 60 * DAY)
        for user in range(40)
        for months in (0, 0, 0, 0, 0, 0, 1)
    ]
    return each + rng.sample(each, 60)


def test_a_killed_run_and_the_next_one_find_the_users_over_the_cap(tmp_path: Path, write_lines: Any) -> None:
    reports, folder, key = sent(), tmp_path / "reports", tmp_path / "key"
    folder.mkdir()
    key.write_bytes(b"a key of thirty-two bytes, secret")
    key.chmod(0o600)
    options = ("--input", folder / "*", "--user-id-key-file", key, "--max-disorder", "1d")
    write_lines(folder / "0.jsonl", reports[:200])
    with streaming(tmp_path, TEXT, *options) as killed:
        killed.wait_until_said("^run .* reading ")
        killed.wait_until(lambda: any(killed.left.run_folder.glob("ledger/*.arrow")))
        killed.process.kill()
    write_lines(folder / "1.jsonl", reports[150:])
    with streaming(tmp_path, TEXT, *options, "--stop-when-idle", "5s") as stream:
        assert stream.wait() == 0, stream.said
        said, output = stream.said, stream.left.output
    entries = json.loads((output / "ledger_periods.json").read_text())
    wanted = [lines(users, 3.5) for _, users in sorted(spent([Run(reports)], HOUR, DAY, PRICES).items())]
    over = sum(period["over"] for period in wanted)
    assert over == sum(entry["users_over_cap"] for entry in entries) > 0
    assert "users spent more than epsilon 3.5 in the period" in said
    for entry, period in zip(entries, wanted, strict=True):
        assert entry["users"] == period["users"]
        for line in ("about_values", "changes_included"):
            epsilons = sorted(period[line])
            up_to = accumulate(period[line][epsilon] for epsilon in epsilons)
            levels = {level["at_most"]: level["users"] for level in entry[line]}
            assert levels.items() <= dict(zip(epsilons, up_to, strict=True)).items()
            assert max(levels) == epsilons[-1]
