"""Clients that remember their noise: the two steps of a report, and what a user's windows share."""

from ldpbeam.memoised.chains import SupportChain as SupportChain
from ldpbeam.memoised.lifetime import MEMOISED as MEMOISED
from ldpbeam.memoised.lifetime import MOST_MEMO_BUCKETS as MOST_MEMO_BUCKETS
from ldpbeam.memoised.lifetime import Lifetime as Lifetime
from ldpbeam.memoised.lifetime import released_options as released_options
from ldpbeam.memoised.memos import Memo as Memo
from ldpbeam.memoised.memos import check_device_key as check_device_key
from ldpbeam.memoised.steps import Steps as Steps
from ldpbeam.memoised.steps import steps_of as steps_of
