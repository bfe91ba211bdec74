"""The rows of the ledger over periods: what each valid report of a batch spends, whatever becomes of it."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpbeam.schemas.outputs.ledger_format import RECEIVED_SCHEMA
from ldpbeam.schemas.reports.casts import is_null
from ldpbeam.schemas.reports.stamps import stamp_of
from ldpbeam.spent import services_of
from ldpbeam.study import Study
from ldpbeam.transforms.reports.batches import mixed

Unsigned = NDArray[np.uint64]

#: The tag of the rows.
RECEIVED = "received"
#: The texts from which keys are derived. They are longer than any user id, so that a derived key is never the
#: HMAC of a user id.
_PAYLOADS = b"ldpbeam ledger payloads".ljust(512, b".")
_CHECK = b"ldpbeam ledger check".ljust(512, b".")


def key_check(key: bytes) -> str:
    """32 hexadecimal digits by which ledgers of one key are recognised; they reveal nothing of it."""
    return hmac.digest(key, _CHECK, "sha256")[:16].hex()


def ledger_fingerprint(study: Study) -> str:
    """32 hexadecimal digits of all that rows, their places and their epsilons depend on.

    It excludes the cap and ``values_at_most``, and what is estimated and published: after an edit of these,
    a ledger continues.
    """
    assert study.ledger is not None
    services = []
    for name, index in services_of(study):
        attribute = study.attribute(name)
        version = attribute.versions[index]
        services.append([name, version.service, version.version, stamp_of(attribute, index)])
    step = None if study.windows is None else study.windows.steps.length
    periods = study.ledger.periods
    calendar = [periods.offset, periods.clock.zone if periods.clock else None]
    said = json.dumps(
        [
            study.name, study.ledger.period, step, study.once_per_window, services,
            *(calendar if any(calendar) else ()),
        ]
    )  # fmt: skip
    return hashlib.sha256(said.encode()).hexdigest()[:32]


def _marks(study: Study, report_ids: pa.Array | None, times: NDArray[np.int64]) -> Unsigned | None:
    """What tells a user's reports of the same window, service and payload apart, shape (n,).

    None where a user has one report in a window: an equal report is a copy, and costs nothing. Elsewhere a
    user may send equal reports, which differ in their report ids, or without an id in their event times.

    Args:
        study: the study.
        report_ids: n values, binary; None if no report has one.
        times: event times in epoch milliseconds, shape (n,).
    """
    if study.once_per_window:
        return None
    marks = times.view(np.uint64)
    if report_ids is None:
        return marks
    hashes = mixed(pc.fill_null(report_ids, b""))
    return np.where(is_null(report_ids), marks, hashes)


def received_rows(
    study: Study,
    key: bytes,
    users: NDArray[np.uint8],
    times: NDArray[np.int64],
    report_ids: pa.Array | None,
    service: int,
    payloads: NDArray[np.generic],
) -> pa.RecordBatch:
    """The rows of n reports to one service.

    Args:
        study: the study, which has a ledger over periods.
        key: the key of the ledger, of which that of the hashes of payloads is derived.
        users: the keyed user ids, shape (n, 16).
        times: event times in epoch milliseconds, shape (n,).
        report_ids: n values, binary; None if no report has one.
        service: the place of the service.
        payloads: the payloads in the type of the mechanism, shape (n,).
    """
    assert study.ledger is not None
    cells = study.ledger.periods if study.windows is None else study.windows.steps
    ids = users.view(">u8").astype(np.uint64)
    of_payloads = np.uint64(int.from_bytes(hmac.digest(key, _PAYLOADS, "sha256")[:8], "big"))
    columns = (
        ids[:, 0],
        ids[:, 1],
        cells.starts(cells.numbers(times)),
        np.full(len(times), service, dtype=np.uint16),
        _hashes(payloads, ids[:, 1], _marks(study, report_ids, times), of_payloads),
    )
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=RECEIVED_SCHEMA)


def distinct(received: Sequence[pa.RecordBatch]) -> pa.Table:
    """The rows of all batches, each once."""
    rows = pa.Table.from_batches(received, schema=RECEIVED_SCHEMA)
    return rows.group_by(RECEIVED_SCHEMA.names, use_threads=False).aggregate([])


def _hashes(
    payloads: NDArray[np.generic], users: Unsigned, marks: Unsigned | None, key: np.uint64
) -> Unsigned:
    """A 64-bit hash of each payload and its mark, under the key and the user, shape (n,).

    Two of them of one user, window and service collide with a probability of about 2^-64.
    """
    width = payloads.dtype.itemsize
    words = np.zeros((len(payloads), -(-width // 8) * 8), dtype=np.uint8)
    words[:, :width] = np.ascontiguousarray(payloads).view(np.uint8).reshape(len(payloads), width)
    hashes = _mixed(users ^ key)
    for word in words.view("<u8").T:
        hashes = _mixed(hashes ^ word)
    return hashes if marks is None else _mixed(hashes ^ marks)


def _mixed(words: Unsigned) -> Unsigned:
    """The finaliser of SplitMix64 (Steele et al., OOPSLA 2014), after adding its constant."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
