"""A process that reads a feed as a run does: what it took and the position of the feed are in one file.

    python committing.py FEED.pickle MANIFEST.json

It takes and commits until it is killed, and now and then takes more than it commits. The manifest has the
users whose reports were kept.
"""

from __future__ import annotations

import json
import pickle
import random
import sys
import time
from pathlib import Path
from typing import Any

from ldpbeam.transforms.sources import pubsub
from ldpbeam.transforms.storage import write_json


def main() -> None:
    """Read until the end of the process."""
    # What a killed process holds comes again soon.
    pubsub.DEADLINE_SECONDS, pubsub.BATCH_MESSAGES = 10, 50
    feed, path = pickle.loads(Path(sys.argv[1]).read_bytes()), Path(sys.argv[2])
    left: Any = json.loads(path.read_text()) if path.exists() else {"position": None, "users": []}
    opened, users = feed.open_at(left["position"]), left["users"]
    while True:
        batch = opened.take()
        if batch is not None:
            for each in batch.batches:
                users += [user.decode() for user in each.column("user_id").to_pylist()]
        if batch is None or random.random() < 0.3:
            position = opened.position()
            write_json(str(path), {"position": position, "users": users})
            time.sleep(0.02)
            opened.commit()


if __name__ == "__main__":
    main()
