"""Flipped bits and cut inputs: nothing is lost without a word, and checksums let nothing changed in."""

from __future__ import annotations

import pytest
from support.damage import FLAGGED, SAME, UNSEEN, Format, Found, damage, formats, outcome

FORMATS = {own.name: own for own in formats()}
#: Formats with a checksum over all that enters a statistic.
CHECKED = ("Avro, snappy", "JSON lines, gzip", "snapshot", "Parquet, page checksums")
#: Formats that say where they end.
ENDED = (*CHECKED[1:], "Parquet")
FILES = [name for name, own in FORMATS.items() if own.suffix]


@pytest.mark.parametrize("name", FORMATS)
def test_damage_is_never_silent_loss(name: str) -> None:
    found = damage(FORMATS[name], 40, 10, seed=1)
    if name in CHECKED:
        assert not found["flips"][UNSEEN]
    if name in ENDED:
        assert found["truncations"] == {FLAGGED: 10}


@pytest.mark.parametrize("name", FILES)
def test_nothing_left_of_a_file_is_damage_unless_it_may_be_empty(name: str) -> None:
    own = FORMATS[name]
    assert own.read(b"").flag == ("" if name == "JSON lines" else FLAGGED)


def test_silent_loss_would_be_seen() -> None:
    rows = [(0, number) for number in range(9)]
    broken = Format("broken", b"", lambda data: Found(rows[: len(data)], len(data)))
    valid = broken.read(bytes(9))
    assert outcome(broken, valid, bytes(9)) == SAME
    with pytest.raises(AssertionError, match="2 reports are lost, and nothing says so"):
        outcome(broken, valid, bytes(7))
