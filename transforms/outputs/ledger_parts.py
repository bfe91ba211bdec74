"""The received reports of a run, in files of its ledger."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from ldpbeam.schemas.outputs.ledger_format import RECEIVED_SCHEMA, About, write_rows
from ldpbeam.transforms.reports.ledger_rows import distinct
from ldpbeam.transforms.storage import join, make_folder, replacing


@dataclass(frozen=True)
class Keeping:
    """Where the rows of a ledger over periods go.

    Attributes:
        folder: the folder of the files.
        about: what each file says of itself.
        key: the key of the hashes of user ids and payloads.
    """

    folder: str
    about: About
    key: bytes = field(repr=False)


def write_part(folder: str, about: About, received: Sequence[pa.RecordBatch]) -> None:
    """Write received reports to a file that its owner alone can read; those that are equal once."""
    rows = distinct(received)
    make_folder(folder, private=True)
    windows = tuple(sorted(rows["window"].unique().to_pylist()))
    about = replace(about, rows=len(rows), windows=windows)
    path = join(folder, f"{uuid.uuid4().hex}.arrow")
    with replacing(path, private=True) as stream:
        write_rows(stream, path, RECEIVED_SCHEMA, about, rows.to_batches())
