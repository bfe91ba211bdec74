"""Pieces that are spilled to a disk come back as they were, once each, and a disk's error says what to do."""

from __future__ import annotations

from pathlib import Path
from typing import IO

import pyarrow as pa
import pytest
from support.pane_reports import Report, batches_of, people_report, study_of
from support.pane_runs import in_batch

from ldpbeam.errors import machine_problem
from ldpbeam.transforms.windows import shuffle
from ldpbeam.transforms.windows.piece_keys import PieceKey
from ldpbeam.transforms.windows.shuffle import Place, Spill, _read_back

KEY = PieceKey("x", 0, None)
(PIECE,) = batches_of(Report("ann", 1), Report("bob", 2, report_id="r", group="north"))


#: With and without users that are compared, with coordinates, and in longer windows.
SPILLED = ("a vector", "duplicates are kept", "joined windows of categories")


@pytest.mark.parametrize("name", SPILLED)
def test_a_run_that_spills_gives_what_one_that_does_not_gives(name: str, tmp_path: Path) -> None:
    study = study_of(name)
    reports = people_report(study)
    spilled = in_batch(study, reports, spill=str(tmp_path))
    shuffled = in_batch(study, reports)
    assert spilled.last == shuffled.last
    assert spilled.counts == shuffled.counts
    assert shuffled.counts["used"]
    # Report ids are compared, and then users, unless the study keeps duplicates.
    files = len(list(tmp_path.iterdir()))
    assert files >= 3 if study.group_users else files == (study.duplicates == "drop")


def spill(step: Spill, *pieces: pa.RecordBatch) -> list[Place]:
    """The places of the pieces of a bundle."""
    step.start_bundle()
    places = [place for piece in pieces for _, place in step.process((KEY, piece))]
    step.finish_bundle()
    return places


def test_only_places_that_were_committed_are_read(tmp_path: Path) -> None:
    step, worker, (other,) = Spill(str(tmp_path)), Spill(str(tmp_path)), batches_of(Report("cho", 3))
    step.start_bundle()
    lost = list(step.process((KEY, other)))
    # The bundle failed, and the engine repeats it, while another worker has one; an empty bundle follows.
    worker.start_bundle()
    first = spill(step, PIECE, other)
    again = [place for _, place in worker.process((KEY, other))]
    worker.finish_bundle()
    assert spill(step) == []
    assert len({place.file for _, place in lost} | {place.file for place in (*first, *again)}) == 3
    key, pieces = _read_back((KEY, [*again, first[1], first[0]]), str(tmp_path))
    assert key == KEY
    assert sorted(map(str, (piece.to_pydict() for piece in pieces))) == sorted(
        map(str, (piece.to_pydict() for piece in (PIECE, other, other)))
    )
    assert all(piece.schema.equals(PIECE.schema) for piece in pieces if len(piece) == 2)


@pytest.mark.parametrize("buffer", [16, 2**20], ids=["while pieces are written", "at the end"])
def test_a_full_disk_is_a_sentence_that_names_the_folder(
    buffer: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: Path, __: str, buffering: int) -> IO[bytes]:
        return open("/dev/full", "wb", buffering)

    monkeypatch.setattr(shuffle, "_BUFFER_BYTES", buffer)
    monkeypatch.setattr(Path, "open", full)
    step = Spill(str(tmp_path))
    step.start_bundle()
    with pytest.raises(OSError, match="No space left") as caught:
        # The piece fits into the larger buffer, so that the disk is asked at the end.
        list(step.process((KEY, PIECE)))
        assert buffer == 2**20
        step.finish_bundle()
    assert machine_problem(caught.value) == (
        f"No space left on device: '{tmp_path}'; reports that are compared or refused are spilled there, and "
        "TMPDIR names another folder"
    )
