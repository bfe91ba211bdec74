"""The manifest: the state of a run between two polls, in one file that each commit replaces.

It is two lines of JSON: a header with the format and the hash of the other line, and the state. A start reads
it and writes nothing; what it names is all that there is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ldpbeam.errors import UserError
from ldpbeam.transforms.reports.counts import IN_OPEN_WINDOWS, accounting
from ldpbeam.transforms.storage import join, make_folder, replacing

#: The version of the format, which a change that older copies cannot read raises.
FORMAT = 1
NAME = "manifest.json"


@dataclass(frozen=True)
class Manifest:
    """What the next process needs to go on. Times are epoch milliseconds.

    Attributes:
        study: the fingerprint of the study.
        number: the number of the commit, from 1.
        position: where the feed continues, in the feed's own terms.
        watermark: the watermark; None before there was one.
        clock: the server's clock or less; None before anything had arrived.
        counts: what became of the reports, by name, but for those that wait.
        in_open_windows: how many reports wait of which no pane has counted what became of them.
        letter_files: how many files of dead letters there are.
        unsolved: the panes that fired and are not solved, in their order: the fields of ``Pane``.
        missing: the windows whose estimates are missing because solving them ended a process, in words.
        incomplete_before: windows that begin before this time may lack reports; None for none.
        ended: when the run ended by itself, with all of its windows; None while it has not.
        segments: the number of each segment, its rows, and since when some are of no open window; None if all
            are.
        key: the key of the hashes of ids, in hexadecimal digits.
        windows: the open windows, as ``OpenWindows.to_json`` gives them.
    """

    study: str
    number: int = 0
    position: Mapping[str, Any] = field(default_factory=dict)
    watermark: int | None = None
    clock: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    in_open_windows: int = 0
    letter_files: int = 0
    unsolved: list[Any] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    incomplete_before: int | None = None
    ended: int | None = None
    segments: list[Any] = field(default_factory=list)
    key: str = field(default="", repr=False)
    windows: Mapping[str, Any] = field(default_factory=dict)

    @property
    def accounting(self) -> dict[str, Any]:
        """What became of the reports, as ``accounting.json`` has it."""
        return accounting({**self.counts, IN_OPEN_WINDOWS: self.in_open_windows}.items())


def write_manifest(folder: str, manifest: Manifest) -> None:
    """Replace the manifest; the disk has it when this returns.

    Raises:
        OSError: if the disk does not take it.
    """
    state = json.dumps({each.name: getattr(manifest, each.name) for each in fields(Manifest)}).encode()
    header = {"format": FORMAT, "study": manifest.study, "sha256": hashlib.sha256(state).hexdigest()}
    make_folder(folder, private=True)
    with replacing(join(folder, NAME), private=True) as file:
        file.write(json.dumps(header).encode() + b"\n" + state + b"\n")


def read_manifest(folder: str, study: str) -> Manifest | None:
    """The manifest in a folder; None if there is none.

    Raises:
        UserError: if it is damaged, of another study, or of a newer format; nothing is deleted.
    """
    path = Path(join(folder, NAME))
    if not path.exists():
        return None
    header_line, _, state = path.read_bytes().removesuffix(b"\n").partition(b"\n")
    try:
        header = json.loads(header_line)
        version, of, digest = header["format"], header["study"], header["sha256"]
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{path}: it is damaged: it has no header; {_LEFT}") from None
    if version > FORMAT:
        raise UserError(f"{path}: format {version} is of a newer version of ldpbeam; {_LEFT}")
    if of != study:
        raise UserError(f"{path}: it is of another study, or the study has changed; name another --output")
    if hashlib.sha256(state).hexdigest() != digest:
        raise UserError(f"{path}: it is damaged: its hash is not that of its contents; {_LEFT}")
    return Manifest(**json.loads(state))


_LEFT = "nothing was changed. Name another --output, or bring the file back from a backup"
