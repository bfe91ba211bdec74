"""What Firefox's new tab sends of a click, written from the description of its client alone.

A click on one of n recommended items is kept with probability e^epsilon / (e^epsilon + n - 1). Else it is
replaced by an item that is drawn from all n, the true one too. There is no id of a user or a client.
"""

import json
import math
import secrets


class NewTab:
    """The client of one device.

    Args:
        epsilon: as the configuration states it.
        items: how many items there are.
        random: draws; by default from the system's secure source. Another source is for tests only.
    """

    def __init__(self, epsilon: float, items: int, random: secrets.SystemRandom | None = None) -> None:
        self.items = items
        self.kept = math.exp(epsilon) / (math.exp(epsilon) + items - 1)
        self.random = random or secrets.SystemRandom()

    def sent(self, item: int) -> int:
        """The item that is sent in place of a clicked one."""
        return item if self.random.random() < self.kept else self.random.randrange(self.items)

    def report(self, item: int, time: int, branch: str) -> str:
        """A line of JSON; the time is in milliseconds since 1970."""
        named = {"attribute": "clicks", "service": "newtab", "event_time": time, "branch": branch}
        return json.dumps({**named, "payload": self.sent(item)})
