"""What a client remembers, without storing it: a pseudo-random function of the device key (docs/reports.md).

The draws of a permanent answer are HMAC-SHA256 under the device key, in counter mode, of a text that states
what is drawn. Two permanent answers with a common draw would reveal more than the lifetime epsilon.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam.domains import Integers
from ldpbeam.mechanisms import LocalHashing, SecureUniforms, Uniforms
from ldpbeam.mechanisms.numbers.grid import whole_draws
from ldpbeam.memoised.lifetime import Lifetime
from ldpbeam.memoised.steps import Inputs, Steps, reports_of, steps_of

#: The first field of every text: the purpose, and the version of its form.
PURPOSE = "ldpbeam memo 1"
#: The least number of bytes of a device key.
SHORTEST_DEVICE_KEY = 16
#: A block of HMAC-SHA256 has this many draws, of eight bytes each.
DRAWS_PER_BLOCK = 4
#: Reports are drawn in blocks of about this many draws.
BLOCK_DRAWS = 2**22


def check_device_key(key: object) -> bytes:
    """The key.

    Raises:
        ValueError: if it is not bytes, or shorter than 16.
    """
    if isinstance(key, bytes) and len(key) >= SHORTEST_DEVICE_KEY:
        return key
    found = len(key) if isinstance(key, bytes) else type(key).__name__
    raise ValueError(
        f"device_key must be {SHORTEST_DEVICE_KEY} random bytes or more, found {found}: os.urandom(32) makes "
        "one, which the device keeps"
    )


def draws_of(key: bytes, text: bytes, count: int) -> Integers:
    """The first draws of the pseudo-random function: whole numbers below 2^53, shape (count,).

    Args:
        key: the device key.
        text: states what is drawn.
        count: the number of draws.
    """
    blocks = (
        hmac.digest(key, text + struct.pack(">I", block), hashlib.sha256)
        for block in range(-(-count // DRAWS_PER_BLOCK))
    )
    words = np.frombuffer(b"".join(blocks), dtype="<u8")[:count]
    return (words >> np.uint64(11)).astype(np.int64)


def fields_of(*fields: str) -> bytes:
    """Texts in UTF-8, each after its length in bytes as four big-endian bytes."""
    encoded = (field.encode() for field in fields)
    return b"".join(struct.pack(">I", len(field)) + field for field in encoded)


@dataclass(frozen=True)
class Memo:
    """The permanent answers of the clients of a service.

    Attributes:
        study, attribute, service, version: their names; the version is empty if there is only one.
        domain: the hash of the domain, 32 hexadecimal digits, as in a stamp.
        lifetime: what the clients remember.
    """

    study: str
    attribute: str
    service: str
    version: str
    domain: str
    lifetime: Lifetime

    @functools.cached_property
    def steps(self) -> Steps:
        """The constants of both steps."""
        return steps_of(self.lifetime)

    @functools.cached_property
    def _service(self) -> bytes:
        """The fields that all texts of the service begin with."""
        named = self.lifetime.named
        options = f"{named.seeds},{named.hashed}" if isinstance(named, LocalHashing) else ""
        return fields_of(
            PURPOSE,
            self.study,
            self.attribute,
            self.service,
            self.version,
            named.name,
            options,
            ",".join(map(str, self.steps.constants)),
            self.domain,
        )

    def text(self, drawn: str, given: str) -> bytes:
        """The input of the pseudo-random function.

        Args:
            drawn: ``answer``, or ``seed`` of ``olh``.
            given: the input of the permanent step in decimal digits; empty for a seed.
        """
        return self._service + fields_of(drawn, given)

    def seeds(self, keys: Sequence[bytes]) -> Integers:
        """The seed of ``olh`` of each device, for life, shape (n,)."""
        named = self.lifetime.named
        assert isinstance(named, LocalHashing)
        family = named.seed_family or 2**32
        text = self.text("seed", "")
        return _of_each(keys, np.zeros(len(keys), np.int64), lambda key, _: draws_of(key, text, 1)) % family

    def permanent(self, keys: Sequence[bytes], inputs: Integers) -> Integers:
        """The permanent answers, shape (n, ``steps.draws_of_answer``).

        Args:
            keys: the device key of each report.
            inputs: categories, hash values or memo buckets, shape (n,).
        """
        many = self.steps.draws_of_answer
        draws = _of_each(
            keys, inputs, lambda key, value: draws_of(key, self.text("answer", str(value)), many)
        )
        return self.steps.permanent(inputs, draws.reshape(len(keys), many))

    def perturb(
        self, keys: Sequence[bytes], values: NDArray[Any], uniforms: Uniforms | None = None
    ) -> NDArray[Any]:
        """One report per value, shape (n,).

        Args:
            keys: the device key of each report.
            values: numbers scaled to [0, 1], or indexes of categories, shape (n,).
            uniforms: the source of instant draws; None for the operating system's secure source.
        """
        uniforms = SecureUniforms() if uniforms is None else uniforms
        step = max(1, BLOCK_DRAWS // self.steps.draws_of_answer)
        blocks = [
            self._block(keys[start : start + step], values[start : start + step], uniforms)
            for start in range(0, max(len(keys), 1), step)
        ]
        return np.concatenate(blocks)

    def _block(self, keys: Sequence[bytes], values: NDArray[Any], uniforms: Uniforms) -> NDArray[Any]:
        named, seeds = self.lifetime.named, None
        if self.lifetime.memo_buckets:
            inputs = Inputs(self.lifetime.memo_buckets, self.lifetime.values).of(values)
        else:
            inputs = np.asarray(values, dtype=np.int64)
        if isinstance(named, LocalHashing):
            seeds = self.seeds(keys)
            inputs = named.hash(inputs, seeds).astype(np.int64)
        permanent = self.permanent(keys, inputs)
        draws = whole_draws(uniforms, permanent.size).reshape(permanent.shape)
        return reports_of(self.lifetime, self.steps.instant(permanent, draws), seeds)


def _of_each(keys: Sequence[bytes], inputs: Integers, drawn: Callable[[bytes, int], Integers]) -> Integers:
    """The draws for each pair of a key and an input, computed once per distinct pair.

    HMAC has no form for arrays, so this is a loop over the pairs.
    """
    pairs = list(zip(keys, inputs.tolist(), strict=True))
    draws = {pair: drawn(*pair) for pair in dict.fromkeys(pairs)}
    if not pairs:
        return np.zeros(0, dtype=np.int64)
    return np.concatenate([draws[pair] for pair in pairs])
