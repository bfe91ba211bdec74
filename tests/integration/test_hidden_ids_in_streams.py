"""With a user-id key nothing that a stream writes or says can be rebuilt from a guessed id."""

from __future__ import annotations

import stat
from pathlib import Path

import fastavro
import pytest
from stream_runs import streaming
from support.guessed_ids import REASONS, looked_through, write_inputs

pytestmark = pytest.mark.slow

WINDOWS = "windows: {size: 1h, allowed_lateness: 10m, max_age: 30000d}\n"


def test_a_stream_with_a_key_shows_nothing_of_a_guessed_id(small_text: str, tmp_path: Path) -> None:
    inputs = write_inputs(tmp_path / "in")
    key = tmp_path / "key"
    key.write_bytes(b"a key of thirty-two bytes, secret")
    key.chmod(0o600)
    options = ("--input", inputs / "*", "--user-id-key-file", key, "--stop-when-idle", "5s")
    with streaming(tmp_path, small_text + WINDOWS, *options) as stream:
        code = stream.wait()
        said, left = stream.said, stream.left
    # Damaged files are among its input.
    assert code == 3, said
    folder = left.run_folder / "dead_letters"
    letters = []
    for path in folder.glob("*.avro"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with path.open("rb") as records:
            letters += list(fastavro.reader(records))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {letter["reason"] for letter in letters} == REASONS | {"bad_file"}
    assert looked_through(said, left.output, inputs) == []
