"""Clients that remember their noise: the two steps of a report, and what a user's windows share."""

from ldpbeam.memoised.chains import NumberChain, SupportChain
from ldpbeam.memoised.lifetime import MEMOISED, MOST_MEMO_BUCKETS, NO_CLIENT, Lifetime, released_options

__all__ = [
    "MEMOISED",
    "MOST_MEMO_BUCKETS",
    "NO_CLIENT",
    "Lifetime",
    "NumberChain",
    "SupportChain",
    "released_options",
]
