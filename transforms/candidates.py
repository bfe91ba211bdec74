"""The names of a window's candidates, from the file or the folder that the study names."""

from __future__ import annotations

import functools
import logging
from dataclasses import replace
from pathlib import Path

from ldpbeam.cells import Clock
from ldpbeam.domains import Candidates
from ldpbeam.errors import UserError, naming
from ldpbeam.schemas.files.candidates import MOST_BYTES, CandidateTable, read_table
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study
from ldpbeam.transforms.patterns import Entry, matching
from ldpbeam.transforms.storage import is_local, join, literal, open_raw
from ldpbeam.windows import Bounds

#: The logger that says why a table cannot be read while a stream runs.
LOG = logging.getLogger("ldpbeam.candidates")
#: The tables that this process has read, and why one cannot be read now, by path.
_last: dict[tuple[str, int], CandidateTable | None] = {}
_problems: dict[str, str] = {}


def check_tables(study: Study) -> None:
    """Read the tables of a study, before any work.

    Raises:
        UserError: if one does not exist, cannot be read, or is no table of candidates.
    """
    for name in study.attributes:
        _ = _table(study, name)


def names_of(study: Study, attribute: str, window: Bounds | None) -> Candidates | None:
    """The names of an attribute's places in a window; None if no table has any.

    A table that cannot be read now, as while it is written, is as this process has read it last.
    """
    path, domain = study.described(attribute).candidates, study.attribute(attribute).domain
    if path is None or not isinstance(domain, Candidates):
        return None
    try:
        _last[path, domain.places] = _table(study, attribute)
        _problems.pop(path, None)
    except UserError as error:
        if _problems.get(path) != str(error):
            _problems[path] = str(error)
            LOG.warning("%s; until it can be read again, the names that were read before are used", error)
    table = _last.get((path, domain.places))
    return None if table is None else table.of_window(window, domain.places)


def with_names(study: Study, snapshot: Snapshot) -> Snapshot:
    """A snapshot with the names that its places have now; a roll-up has those of all its windows."""
    if snapshot.candidates is not None or study.described(snapshot.attribute).candidates is None:
        return snapshot
    names = [names_of(study, snapshot.attribute, window) for window in snapshot.inner_windows]
    known = [candidates for candidates in names if candidates is not None]
    try:
        candidates = Candidates.together(known) if len(known) == len(names) else None
    except ValueError:
        candidates = None
    return replace(snapshot, candidates=candidates, table=candidates.fingerprint if candidates else "")


def _table(study: Study, attribute: str) -> CandidateTable | None:
    """The table of an attribute; None if its domain has no candidates.

    Raises:
        UserError: if it cannot be read.
    """
    path, domain = study.described(attribute).candidates, study.attribute(attribute).domain
    if path is None or not isinstance(domain, Candidates):
        return None
    with naming(path):
        folder = path.endswith("/") or (is_local(path) and Path(path).is_dir())
        entries = matching(join(literal(path.rstrip("/")), "*.csv") if folder else literal(path))
        if not (entries or folder):
            raise UserError(f"{path}: there is no such file or folder of candidates")
    return _read(tuple(entries), domain.places, study.local)


@functools.lru_cache(maxsize=4)
def _read(entries: tuple[Entry, ...], places: int, clock: Clock | None) -> CandidateTable:
    files = []
    for entry in entries:
        with naming(entry.path), open_raw(entry.path) as stream:
            files.append((entry.path, stream.read(MOST_BYTES + 1)))
    return read_table(files, places, clock)
