"""One device that reports its drink every hour of a week, and what its reports say of it.

    python examples/memoised/device.py

The device draws a key once and keeps it. Reports of one value come from one permanent answer, so that their
most frequent category is that answer: after a week it is known, and whether it is the drink is not.
"""

import os
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import ldpbeam as ldp

START = datetime(2026, 11, 16, tzinfo=UTC)


def main() -> int:
    """Report one drink for a week, and print what was sent."""
    study = ldp.Study.from_yaml(Path(__file__).with_name("study.yaml"))
    key = os.urandom(32)
    times = [START + timedelta(hours=hour) for hour in range(7 * 24)]
    sent = Counter[str]()
    names = study.attribute("drink").domain.names
    for time in times:
        # A new client for each report, as after a restart: the key is all that is kept.
        client = ldp.Client(study, "drink", "app", device_key=key)
        report = client.report("tea", "user 1", event_time=time)
        sent[names[report["payload"]]] += 1
    for name, count in sent.most_common():
        print(f"{name:8} {count:4} of {len(times)} reports")
    print("The most frequent one is the permanent answer: tea for 65% of devices, and not for 35%.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
