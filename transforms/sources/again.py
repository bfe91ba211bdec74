"""Reading dead letters again: records that a run has kept, by what today's study says of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ldpbeam.schemas.messages.binary import UNKNOWN_SCHEMA, BadMessage
from ldpbeam.schemas.outputs.dead_letters import read_dead_letters
from ldpbeam.schemas.outputs.records import DeadLetterRecord
from ldpbeam.schemas.reports.columns import DELIVERY, PLACE, Columns
from ldpbeam.transforms.reports.dead_letters import LETTERS_AT_ONCE, REASONS, DeadLetter
from ldpbeam.transforms.reports.kept_records import decode_kept
from ldpbeam.transforms.sources.batch_input import in_parts
from ldpbeam.transforms.storage import open_raw

#: Letters are decoded in parts of about this many bytes.
PART_BYTES = 16 * 2**20
#: The reasons of dead letters that a study or an option may mend. Records of other letters are no reports
#: whatever the study says, and a message that defeated the decoder is not decoded again.
MAY_BE_MENDED = frozenset({*REASONS[1:], UNKNOWN_SCHEMA})
#: How the detail names the one report that was refused, where a record is one to several attributes.
_IN_A_LIST = re.compile(r"[^\[\]]+\[(\d+)\](: .*)?")


class LettersFile(NamedTuple):
    """A file of dead letters, and which of them are read: a bit for each, as ``np.packbits`` has them."""

    path: str
    chosen: bytes


def read_letters(file: LettersFile, columns: Columns) -> Iterator[pa.RecordBatch | list[DeadLetter]]:
    """The decoded batches of a file of dead letters, and what of it still does not decode.

    Raises:
        OSError: if the file cannot be read, or a registry of schemas does not answer.
    """
    chosen = np.unpackbits(np.frombuffer(file.chosen, dtype=np.uint8))
    with open_raw(file.path) as stream:
        pairs = zip(read_dead_letters(stream), chosen, strict=False)
        letters = (letter for letter, is_read in pairs if is_read)
        for part in in_parts(letters, lambda one: len(one.record or b""), LETTERS_AT_ONCE, PART_BYTES):
            still: list[DeadLetter] = []
            for item in read_again(part, columns):
                if isinstance(item, DeadLetter):
                    still.append(item)
                else:
                    yield item
            if still:
                yield still


def read_again(letters: Sequence[DeadLetterRecord], wanted: Columns) -> Iterator[pa.RecordBatch | DeadLetter]:
    """Decode the records of dead letters; those that are no reports whatever the study says stay as they are.

    Args:
        letters: dead letters that have records.
        wanted: which columns are read.

    Raises:
        OSError: if a registry of schemas does not answer.
    """
    by_file: dict[str, list[DeadLetterRecord]] = {}
    for letter in letters:
        if letter.reason in MAY_BE_MENDED:
            by_file.setdefault(letter.file, []).append(letter)
        else:
            yield _still(letter, letter.reason, letter.detail, letter.record or b"")
    for file, of_file in by_file.items():
        positions, rows = (
            pa.array([getattr(letter, name) for letter in of_file], pa.int64())
            for name in ("position", "row")
        )
        named = [_IN_A_LIST.fullmatch(letter.detail) for letter in of_file]
        places = pa.array([name and int(name[1]) for name in named], pa.int64())
        for item in decode_kept([letter.record or b"" for letter in of_file], wanted):
            if isinstance(item, BadMessage):
                yield _still(of_file[int(item.message.id)], item.reason, item.problem, item.data)
                continue
            which = item.column("position")
            columns = dict(zip(item.schema.names, item.columns, strict=True))
            # Letters that are one letter have been told apart, so there are no deliveries to compare.
            columns.pop(DELIVERY, None)
            columns |= {"position": positions.take(which), "row": rows.take(which), PLACE: places.take(which)}
            metadata = {**(item.schema.metadata or {}), b"file": file.encode()}
            yield pa.RecordBatch.from_pydict(columns).replace_schema_metadata(metadata)


def _still(letter: DeadLetterRecord, reason: str, detail: str, data: bytes) -> DeadLetter:
    return DeadLetter(letter.file, letter.position, letter.row, reason, detail, letter.reports, data)
