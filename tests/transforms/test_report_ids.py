"""The same report twice: one report id of a user in a service counts once, whenever it was sent."""

from __future__ import annotations

from typing import Any

from support.tallied import tallied

from ldpbeam.windows import Span

HOUR = 3_600_000
# u1 comes twice in one hour, and r1 twice in two.
TWICE: list[dict[str, Any]] = [
    {"user_id": user, "report_id": report_id, "event_time": time, "service": "a", "payload": place / 10}
    for place, (user, report_id, time) in enumerate(
        [("u1", None, 0), ("u1", None, 1), ("u3", "r1", 2), ("u3", "r1", HOUR), ("u3", None, HOUR)]
    )
]
#: Without it, event times of 1970 are dead letters.
OLD_TIMES = Span(-10 * 365 * 24 * HOUR)


def test_a_report_of_a_span_that_repeats_an_id_from_before_it_does_not_stand(small_text: str) -> None:
    counts = tallied(f"{small_text}windows: {{size: 1h}}\n", TWICE, Span(HOUR, 2 * HOUR)).accounting
    assert (counts["out_of_range"], counts["duplicates"], counts["used"]) == (3, 1, 1)
