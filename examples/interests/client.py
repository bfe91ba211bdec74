"""A browser that sends eight features at once, written from the public description of Firefox's alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random

KEPT, SET = 0.92, 0.0288


def text(value: int, values: int, draw: Random) -> str:
    """The bits of a value: its own is set with probability KEPT, and each other one with SET."""
    return "".join(str(int(draw.random() < (KEPT if bit == value else SET))) for bit in range(values))


def record(features: Sequence[int], values: int, draw: Random) -> str:
    """The line of JSON that a browser sends."""
    return json.dumps({"values": [text(value, values, draw) for value in features]})
