"""Changes to bytes that know nothing of their format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

#: Integers at which widths, signs and limits change.
EDGES = (
    0, 1, 2, 7, 8, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1,
)  # fmt: skip


def edge(rng: Random) -> int:
    """An integer near one of the edges, of either sign."""
    return (rng.choice(EDGES) + rng.choice((0, 0, 0, 1, -1))) * rng.choice((1, 1, 1, -1))


def mutated(rng: Random, data: bytes, others: Sequence[bytes], most: int = 6) -> bytes:
    """Some bytes after one to ``most`` changes; pieces may come from the other inputs."""
    found = bytearray(data)
    for _ in range(min(rng.randint(1, most), rng.randint(1, most))):
        rng.choice(_CHANGES)(rng, found, others)
    return bytes(found)


def _flip_bit(rng: Random, data: bytearray, _: Sequence[bytes]) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _set_byte(rng: Random, data: bytearray, _: Sequence[bytes]) -> None:
    if data:
        data[rng.randrange(len(data))] = rng.choice(
            (0, 1, 2, 0x20, 0x7F, 0x80, 0xFE, 0xFF, rng.randrange(256))
        )


def _set_integer(rng: Random, data: bytearray, _: Sequence[bytes]) -> None:
    width = rng.choice((2, 4, 4, 8))
    if len(data) >= width:
        at = rng.randrange(len(data) - width + 1)
        value = edge(rng) % 256**width
        data[at : at + width] = value.to_bytes(width, rng.choice(("little", "big")))


def _set_varint(rng: Random, data: bytearray, _: Sequence[bytes]) -> None:
    at = rng.randrange(len(data) + 1)
    data[at : at + rng.choice((0, 1, 1, 2))] = zigzag(edge(rng))


def _truncate(rng: Random, data: bytearray, _: Sequence[bytes]) -> None:
    if rng.random() < 0.5:
        del data[rng.randrange(len(data) + 1) :]


def _delete(rng: Random, data: bytearray, _: Sequence[bytes]) -> None:
    first, last = _stretch(rng, data)
    del data[first:last]


def _repeat(rng: Random, data: bytearray, _: Sequence[bytes]) -> None:
    first, last = _stretch(rng, data)
    times = rng.choice((1, 1, 2, 10, 1_000)) if last - first < 200 else 1
    data[last:last] = bytes(data[first:last]) * times


def _splice(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    other = rng.choice(others) if others else bytes(data)
    first, last = _stretch(rng, bytearray(other))
    at, end = _stretch(rng, data)
    data[at : rng.choice((at, end))] = other[first:last]


def _stretch(rng: Random, data: bytearray) -> tuple[int, int]:
    first = rng.randrange(len(data) + 1)
    return first, min(len(data), first + int(2 ** rng.uniform(0, 10)))


def zigzag(value: int) -> bytes:
    """Avro's variable-length integer, of any size."""
    left = value * 2 if value >= 0 else -value * 2 - 1
    found = bytearray()
    while left > 127:
        found.append(left & 127 | 128)
        left >>= 7
    found.append(left)
    return bytes(found)


_CHANGES: tuple[Callable[[Random, bytearray, Sequence[bytes]], None], ...] = (
    _flip_bit, _flip_bit, _set_byte, _set_integer, _set_varint, _truncate, _delete, _repeat, _splice,
)  # fmt: skip
