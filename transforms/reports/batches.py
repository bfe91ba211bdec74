"""Batches, the elements of PCollections up to the statistics: Arrow RecordBatches of one channel's reports.

Its columns are ``event_time`` (int64 epoch milliseconds, 0 if the study does not need one and the report has
none), ``payload`` (the mechanism's type), and if the input has it ``group`` (string). Where reports are
compared there are ``user`` (binary, of 16 bytes if each is), and if the input has them ``report_id`` (binary)
and ``DELIVERY`` (binary); and where other bytes stand for users and report ids, :data:`DRAW` (uint16). Its
schema's metadata names the attribute and the channel. Shuffles are keyed by stable shards of users, never by
users.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpbeam.mechanisms.mechanism import in_cache
from ldpbeam.schemas.reports.casts import fixed_bytes

#: The column with a byte of a hash of the user and one of the report id, where other bytes stand for these.
DRAW = "ldpbeam.draw"
#: The key in a schema's metadata under which a stream's source writes its watermark, in epoch milliseconds.
WATERMARK = b"watermark"


def tagged(
    batch: pa.RecordBatch, attribute: str, version: int, given: Mapping[bytes, bytes] | None = None
) -> pa.RecordBatch:
    """The batch with its attribute, its channel, and in a stream what its source wrote, as metadata.

    Args:
        batch: reports of one channel.
        attribute: the attribute.
        version: the channel's index in the attribute's ``versions``.
        given: the metadata of the decoded batch, of which :data:`WATERMARK` is kept.
    """
    tags: dict[str | bytes, str | bytes] = {"attribute": attribute, "version": str(version)}
    tags.update({key: value for key, value in (given or {}).items() if key == WATERMARK})
    return batch.replace_schema_metadata(tags)


def version_index(batch: pa.RecordBatch) -> int:
    """The index of a batch's channel in the attribute's ``versions``."""
    return int(batch.schema.metadata[b"version"])


def attribute_name(batch: pa.RecordBatch) -> str:
    """The name of a batch's attribute."""
    name: str = batch.schema.metadata[b"attribute"].decode()
    return name


#: An odd number whose bits look random: to multiply by it mixes lower bits into higher ones.
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def shard_of(keys: pa.Array, shards: int) -> NDArray[np.uint16]:
    """The shard of each key (binary, no nulls), shape (keys,), from 0 to ``shards`` - 1.

    Args:
        keys: binary, without nulls.
        shards: how many there are, from 1 to :data:`~ldpbeam.transforms.windows.MOST_SHARDS`.
    """
    if shards == 1:
        return np.zeros(len(keys), dtype=np.uint16)
    hashes, codes = mixed(keys), np.empty(len(keys), dtype=np.uint16)
    for part in in_cache(len(keys)):
        codes[part] = (hashes[part] >> np.uint64(33)) % np.uint64(shards)
    return codes


def words_of(keys: pa.Array) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """(each key as 64-bit words, shape (keys, words); the bytes of each, shape (keys,)).

    Keys are binary without nulls, of which there is one. Where a key ends, zeros follow.
    """
    if pa.types.is_fixed_size_binary(keys.type):
        lengths, data = np.full(len(keys), keys.type.byte_width), fixed_bytes(keys)
    else:
        offsets = np.frombuffer(keys.buffers()[1], dtype=np.int32)[keys.offset : keys.offset + len(keys) + 1]
        lengths = np.diff(offsets).astype(np.int64)
        data = np.frombuffer(keys.buffers()[2] or b"", dtype=np.uint8)[offsets[0] : offsets[-1]]
    width = max(8, -(-int(lengths.max()) // 8) * 8)
    if int(lengths.min()) < width:
        texts = pc.cast(keys, pa.binary()).view(pa.string())
        data = np.frombuffer(pc.ascii_rpad(texts, width, padding="\0").buffers()[2], dtype=np.uint8)
    return np.ascontiguousarray(data).view("<u8").reshape(len(keys), -1), lengths


def mixed(keys: pa.Array) -> NDArray[np.uint64]:
    """A 64-bit hash of each key (binary, no nulls), shape (keys,), the same in every process and version.

    It is not cryptographic: each eight bytes are mixed in with a multiplication and a shift. Collisions do no
    harm, since keys that must be told apart are also compared byte by byte.
    """
    if not len(keys):
        return np.zeros(0, dtype=np.uint64)
    return mixed_words(*words_of(keys))


def mixed_words(words: NDArray[np.uint64], lengths: NDArray[np.int64]) -> NDArray[np.uint64]:
    """:func:`mixed` of keys as :func:`words_of` gives them."""
    numbers = lengths.astype(np.uint64)
    for part in in_cache(len(numbers)):
        numbers[part] = _mixed(words[part], numbers[part])
    return numbers


def _mixed(words: NDArray[np.uint64], lengths: NDArray[np.uint64]) -> NDArray[np.uint64]:
    shortest = lengths.min()
    numbers = lengths * MULTIPLIER
    for index in range(words.shape[1]):
        step = numbers ^ words[:, index]
        step *= MULTIPLIER
        step ^= step >> np.uint64(29)
        numbers = step if shortest > 8 * index else np.where(lengths > 8 * index, step, numbers)
    numbers *= MULTIPLIER
    return numbers


def split_by(batch: pa.RecordBatch, codes: NDArray[Any]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """(code, the rows that have it) for each code of a batch; rows of one code stay in their order."""
    if (codes == codes[0]).all():
        yield int(codes[0]), batch
        return
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    bounds = np.flatnonzero(np.diff(ordered)) + 1
    sorted_batch = batch.take(pa.array(order))
    starts = np.concatenate(([0], bounds))
    ends = np.concatenate((bounds, [len(codes)]))
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        yield int(ordered[start]), sorted_batch.slice(start, end - start)
