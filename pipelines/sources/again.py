"""The kept records of dead letters in output folders: which there are, and which are the same one."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Mapping, Sequence

import numpy as np

from ldpbeam.errors import UserError, naming
from ldpbeam.folders.read import dead_letter_files, read_results
from ldpbeam.schemas.outputs.dead_letters import read_dead_letters
from ldpbeam.schemas.outputs.records import DeadLetterRecord
from ldpbeam.transforms.sources.again import LettersFile, read_letters
from ldpbeam.transforms.sources.batch_input import BatchInput, Reading
from ldpbeam.transforms.sources.files import real
from ldpbeam.transforms.storage import open_raw
from ldpbeam.untrusted import shown


def find_again(folders: Sequence[str]) -> tuple[BatchInput, Mapping[str, int]]:
    """(the kept records of dead letters, how many reports have no record, by reason).

    Each letter counts once: a stream that was killed may have written one twice. A letter that stands for
    several reports has the record of one.

    Args:
        folders: output folders.

    Raises:
        UserError: if one is no output folder, or damaged, or there is no dead letter, or none has its record.
    """
    paths: dict[str, None] = {}
    for folder in folders:
        for path in dead_letter_files(read_results(folder)):
            paths[real(path)] = None
    names, lengths, size = list(paths), list[int](), 0
    keys, is_kept, missing, codes = array("Q"), array("b"), array("q"), array("q")
    reasons: dict[str, int] = {}
    for path in names:
        before = len(keys)
        with naming(path), open_raw(path) as stream:
            for letter in read_dead_letters(stream):
                keys.append(_key(letter, len(keys)))
                is_kept.append(bool(letter.record))
                missing.append(letter.reports - bool(letter.record))
                codes.append(reasons.setdefault(letter.reason, len(reasons)))
                size += len(letter.record or b"")
        lengths.append(len(keys) - before)
    if not keys:
        raise UserError(f"--again {' '.join(map(shown, folders))}: there are no dead letters")
    _, firsts = np.unique(np.frombuffer(keys, np.uint64), return_index=True)
    chosen = np.zeros(len(keys), bool)
    chosen[firsts] = True
    lost = np.bincount(np.frombuffer(codes, np.int64)[chosen], np.frombuffer(missing, np.int64)[chosen])
    chosen &= np.frombuffer(is_kept, np.int8).astype(bool)
    if not chosen.any():
        raise UserError(
            f"--again {' '.join(map(shown, folders))}: its {len(keys):,} dead letters have no records, so "
            "they cannot be read again; a run keeps them with --keep-bad-records (docs/reports.md)"
        )
    parts = np.split(chosen, np.cumsum(lengths)[:-1])
    letters = [
        LettersFile(path, np.packbits(part).tobytes())
        for path, part in zip(names, parts, strict=True)
        if part.any()
    ]
    # What letters say of other files is no damage of theirs.
    kept = BatchInput(
        letters, Reading(read_letters), size, tuple(f"again:{real(folder)}" for folder in folders)
    )
    return kept, {reason: int(number) for reason, number in zip(reasons, lost, strict=True) if number}


def _key(letter: DeadLetterRecord, number: int) -> int:
    """The same number for what is one dead letter in two files; one without a position is one by itself."""
    place = number if letter.position is None else letter.position
    text = repr((letter.file, letter.position is None, place, letter.row, letter.sha256))
    return int.from_bytes(hashlib.blake2b(text.encode(errors="replace"), digest_size=8).digest(), "big")
