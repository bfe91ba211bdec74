"""Of reports at one time one is drawn, which is of no payload more often than of another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pytest
from support.kept_one_by_one import Sent, batches_of
from support.pane_reports import study_of

from ldpbeam.transforms.joining.draws import draws_of, hashes_of
from ldpbeam.transforms.joining.join import join
from ldpbeam.transforms.joining.report_ids import without_duplicate_ids

X = study_of("two services joined").attribute("x")
PEOPLE = [number.tobytes() for number in np.random.default_rng(1).integers(0, 256, (20_000, 16), np.uint8)]
Ids = Callable[[bytes], bytes | None]


def share_who_keep(payload: float, payloads: Sequence[float], ids: Ids) -> float:
    """The share of people who keep a payload, of those that each sends at once."""
    reports = [Sent(user, 0, 0, one, ids(user)) for user in PEOPLE for one in payloads]
    batches, _ = without_duplicate_ids(X, batches_of(reports))
    (users,), _ = join(X, batches)
    assert users.users == len(PEOPLE)
    return float((users.answers[0].payloads == payload).mean())


@pytest.mark.parametrize("payloads", [(0.1, 0.9), (-0.25, 0.5)])
@pytest.mark.parametrize(
    "ids",
    [lambda user: None, lambda user: b"1", lambda user: user[:4], lambda user: user],
    ids=["without", "one", "of each user", "as the user"],
)
def test_each_of_two_tied_payloads_is_kept_of_half_of_the_users(
    payloads: tuple[float, float], ids: Ids
) -> None:
    share = share_who_keep(payloads[0], payloads, ids)
    assert abs(share - 1 / 2) < 4 * np.sqrt(1 / 4 / len(PEOPLE))


def test_of_tied_payloads_without_ids_each_is_kept_as_often_as_it_was_sent() -> None:
    sent = (0.1, 0.5, 0.5, 0.9, 0.9, 0.9, 0.9)
    for payload, times in Counter(sent).items():
        share = times / len(sent)
        # The 256 draws of users are not divided by seven.
        most = 1 / 256 + 4 * np.sqrt(share * (1 - share) / len(PEOPLE))
        assert abs(share_who_keep(payload, sent, lambda _: None) - share) < most


@pytest.mark.parametrize("draws", [0x01, 0x100, 0x101], ids=["of users", "of ids", "of both"])
def test_of_two_reports_each_has_the_smaller_hash_for_half_of_the_draws(draws: int) -> None:
    every = np.arange(256, dtype=np.uint64) * np.uint64(draws)
    contents = np.random.default_rng(1).integers(0, 2**64, (40, 2), dtype=np.uint64)
    for one, other in contents:
        smaller = hashes_of(np.full(256, one), every) < hashes_of(np.full(256, other), every)
        assert smaller.sum() == 128


@pytest.mark.parametrize("name", ["%d", "user %d", "00000000-0000-0000-0000-%012d"])
def test_ids_that_count_up_have_all_draws_alike(name: str) -> None:
    ids = pa.array([(name % number).encode() for number in range(25_600)], pa.binary())
    for draws in (draws_of(ids, pa.nulls(len(ids))) & 255, draws_of(pa.nulls(len(ids)), ids) >> 8):
        counts = np.bincount(draws, minlength=256)
        # Chi-squared, which has a mean of 255 and a variance of 510.
        assert abs(((counts - 100) ** 2 / 100).sum() - 255) < 4 * np.sqrt(510)
