"""Partitions of keys: the same everywhere and always, evenly spread; splitting loses nothing."""

from __future__ import annotations

import uuid

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ldpbeam.transforms.partitions import partition, split_by

KEYS = st.lists(st.binary(max_size=40), min_size=1, max_size=30)
MASK = 2**64 - 1


def one_by_one(key: bytes, partitions: int) -> int:
    """The hash in Python's own integers, eight bytes at a time."""
    multiplier = 0x9E3779B97F4A7C15
    mixed = len(key) * multiplier & MASK
    for start in range(0, len(key), 8):
        word = int.from_bytes(key[start : start + 8], "little")
        mixed = (mixed ^ word) * multiplier & MASK
        mixed ^= mixed >> 29
    return (mixed * multiplier & MASK) >> 33 & MASK % 2**64 if partitions == 0 else (
        (mixed * multiplier & MASK) >> 33
    ) % partitions
