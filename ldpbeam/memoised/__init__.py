"""Clients that remember their noise: the two steps of a report, and what a user's windows share."""

from ldpbeam.memoised.chains import NumberChain, SupportChain
from ldpbeam.memoised.lifetime import MEMOISED, MOST_MEMO_BUCKETS, Lifetime, released_options
from ldpbeam.memoised.memos import SHORTEST_DEVICE_KEY, Memo, check_device_key
from ldpbeam.memoised.steps import Steps, steps_of

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
