"""Clients that remember their noise: the two steps of a report, and what a user's windows share."""

from ldpbeam.over_time.memoised.chains import NumberChain, SupportChain
from ldpbeam.over_time.memoised.lifetime import MEMOISED, MOST_MEMO_BUCKETS, Lifetime, released_options
from ldpbeam.over_time.memoised.memos import SHORTEST_DEVICE_KEY, Memo, check_device_key
from ldpbeam.over_time.memoised.steps import Steps, steps_of

__all__ = [
    "MEMOISED",
    "MOST_MEMO_BUCKETS",
    "SHORTEST_DEVICE_KEY",
    "Lifetime",
    "Memo",
    "NumberChain",
    "Steps",
    "SupportChain",
    "check_device_key",
    "released_options",
    "steps_of",
]
