"""The rows of the ledger over periods: what each valid report of a batch spends, whatever becomes of it."""

from __future__ import annotations

import hmac

import numpy as np
from numpy.typing import NDArray

from ldpbeam.spent import Received, Unsigned
from ldpbeam.study import Study

#: The tag of the rows.
RECEIVED = "received"
#: The texts from which keys are derived. They are longer than any user id, so that a derived key is never the
#: HMAC of a user id.
_PAYLOADS = b"ldpbeam ledger payloads".ljust(512, b".")
_CHECK = b"ldpbeam ledger check".ljust(512, b".")


def key_check(key: bytes) -> str:
    """32 hexadecimal digits by which ledgers of one key are recognised; they reveal nothing of it."""
    return hmac.digest(key, _CHECK, "sha256")[:16].hex()


def payload_key(key: bytes) -> np.uint64:
    """The key of the hashes of payloads."""
    return np.uint64(int.from_bytes(hmac.digest(key, _PAYLOADS, "sha256")[:8], "big"))


def window_starts(study: Study, times: NDArray[np.int64]) -> NDArray[np.int64]:
    """The start of the window in which each report counts, shape (n,), in milliseconds."""
    assert study.ledger is not None
    step = study.ledger.period if study.windows is None else study.windows.step
    return times - times % step


def received_rows(
    users: NDArray[np.uint8],
    windows: NDArray[np.int64],
    service: int,
    payloads: NDArray[np.generic],
    key: np.uint64,
) -> Received:
    """The rows of n reports to one service.

    Args:
        users: the keyed user ids, shape (n, 16).
        windows: the starts of their windows, shape (n,).
        service: the place of the service.
        payloads: the payloads in the type of the mechanism, shape (n,).
        key: :func:`payload_key`.
    """
    ids = users.view(">u8").astype(np.uint64)
    return Received(
        high=ids[:, 0],
        low=ids[:, 1],
        window=windows,
        service=np.full(len(windows), service, dtype=np.uint16),
        payload=_hashes(payloads, ids[:, 1], key),
    )


def _hashes(payloads: NDArray[np.generic], users: Unsigned, key: np.uint64) -> Unsigned:
    """A 64-bit hash of each payload, under the key and the user, shape (n,).

    Two payloads of one user, window and service collide with a probability of about 2^-64.
    """
    width = payloads.dtype.itemsize
    words = np.zeros((len(payloads), -(-width // 8) * 8), dtype=np.uint8)
    words[:, :width] = np.ascontiguousarray(payloads).view(np.uint8).reshape(len(payloads), width)
    hashes = _mixed(users ^ key)
    for word in words.view("<u8").T:
        hashes = _mixed(hashes ^ word)
    return hashes


def _mixed(words: Unsigned) -> Unsigned:
    """The finaliser of SplitMix64 (Steele et al., OOPSLA 2014), after adding its constant."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
