"""Where a stream's runs keep their state, and which of them continues.

An output folder has one stream at a time. The names of its runs sort by when they began. The last run
continues, unless it has ended by itself; then another begins where it ended.
"""

from __future__ import annotations

import contextlib
import json
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from ldpbeam.errors import UserError
from ldpbeam.fit.spending import Spending
from ldpbeam.folders.output import (
    DEAD_LETTERS,
    FIT_FOLDER,
    LEDGER_FOLDER,
    RUN,
    RUNS,
    STUDY,
    Output,
    named_in_errors,
)
from ldpbeam.pipelines.runs.ledger_folder import keeping
from ldpbeam.pipelines.runs.ownership import STREAMS, owned
from ldpbeam.pipelines.spool.manifest import Manifest, read_manifest
from ldpbeam.times import milliseconds
from ldpbeam.transforms.outputs.ledger_parts import Keeping
from ldpbeam.transforms.outputs.names import snapshot_name
from ldpbeam.transforms.patterns import matching
from ldpbeam.transforms.storage import exists, is_local, join, literal, read_json, write_json
from ldpbeam.words import first_ones

#: File systems take names of at most this many bytes; ours are ASCII.
MOST_CHARACTERS = 255
SPOOL = "spool"


@dataclass(frozen=True)
class StreamOutput(Output):
    """A run of a stream, and its folders.

    Attributes:
        spool_root: the folder of the spools of runs, of ``--spool``; empty for the folder of each run.
        earlier_runs: the names of the runs before it.
        ledger_key: the key of the ledger over periods; None if the study has none.
    """

    spool_root: str = ""
    earlier_runs: tuple[str, ...] = ()
    ledger_key: bytes | None = None

    def of_run(self, *names: str) -> str:
        """A path below the run's own folder."""
        return self.path(RUNS, self.run, *names)

    @property
    def spool(self) -> str:
        """The folder of the manifest and of the reports of open windows, on this machine."""
        return join(self.spool_root, self.run) if self.spool_root else self.of_run(SPOOL)

    @property
    def letters(self) -> str:
        """The folder of dead letters."""
        return self.of_run(DEAD_LETTERS)

    @property
    def fit(self) -> str:
        """The folder of the tests of fit."""
        return self.of_run(FIT_FOLDER)

    @property
    def keeping(self) -> Keeping | None:
        """Where the rows of the ledger go; None if the study has none."""
        return keeping(self, self.of_run(LEDGER_FOLDER), self.ledger_key)

    @property
    def spending(self) -> Spending:
        """The limits of the run's tests of fit."""
        assert self.study.windows is not None
        started = begun_at(self.run)
        return Spending(
            since=min(map(begun_at, (*self.earlier_runs, self.run))),
            started=started,
            earlier_runs=len(self.earlier_runs),
            windows=self.study.windows.cells(self.study.windows.period),
            # Windows that are joined have the other half.
            attributes=len(self.study.estimated) * (2 if self.study.windows_joined > 1 else 1),
        )


def begun_at(run: str) -> int:
    """When a run began, in epoch milliseconds, from its name."""
    return milliseconds(run.partition("-")[0])


class Placed(NamedTuple):
    """The run that reads.

    Attributes:
        output: where it writes, with its name.
        manifest: its last one; without a number for a new run.
        earlier: the positions at which earlier runs ended.
    """

    output: StreamOutput
    manifest: Manifest
    earlier: tuple[Mapping[str, Any], ...] = ()


def placed(output: StreamOutput, now: datetime) -> Placed:
    """The run that continues in a folder, or a new one.

    Args:
        output: the run without its name.
        now: the clock.

    Raises:
        UserError: if the folder holds a run of an older version, or a manifest that cannot be used.
    """
    fingerprint = output.study.fingerprint
    if not is_local(output.spool_root or output.output):
        raise UserError(
            f"--output {output.output}: reports of open windows are kept on this machine: name a local "
            "folder, as in --spool /var/lib/ldpbeam"
        )
    names = runs_in(output.output)
    if not names:
        return Placed(replace(output, run=run_name(now)), Manifest(fingerprint))
    last = replace(output, run=names[-1], earlier_runs=tuple(names[:-1]))
    with named_in_errors(output.output):
        _check_study(output)
        _check_kept(last)
        manifests = [read_manifest(replace(output, run=name).spool, fingerprint) for name in names]
    ended = [each for each in manifests if each is not None and each.ended]
    earlier = tuple(each.position for each in ended)
    new = Manifest(fingerprint, incomplete_before=ended[-1].incomplete_before if ended else None)
    if not (ended and manifests[-1] is ended[-1]):
        return Placed(last, manifests[-1] or new, earlier)
    # The order of names is that of runs, though the clock was set back.
    times = [datetime.fromtimestamp(begun_at(name) / 1000, UTC) for name in names]
    after = max([now, *(time + timedelta(seconds=1) for time in times)])
    return Placed(replace(output, run=run_name(after), earlier_runs=tuple(names)), new, earlier)


def _check_study(output: StreamOutput) -> None:
    """Check that the runs of a folder have this study: their open windows count what it says."""
    path = output.path(STUDY)
    if not (exists(path) and exists(output.path(RUN))):
        return
    if read_json(output.path(RUN)).get("study_fingerprint") == output.study.fingerprint:
        return
    before, now = (study.get("attributes", {}) for study in (read_json(path), json.loads(output.study.text)))
    changed = [repr(name) for name in {**before, **now} if before.get(name) != now.get(name)]
    what = f"attributes {first_ones(changed)}" if changed else "settings outside attributes"
    raise UserError(
        f"--output {output.output}: the study has changed since its runs began ({what}), so nothing was "
        f"done: use {path}, or name another folder"
    )


def _check_kept(run: StreamOutput) -> None:
    """Check that the last run of a folder kept its reports where this one looks for them."""
    kept = read_json(run.of_run(RUN)).get("spool", "")
    if kept != run.spool_root:
        where = f"--spool {kept}" if kept else "the output folder, without --spool"
        raise UserError(f"run {run.run} keeps the reports of its open windows in {where}: name it")


def run_name(now: datetime) -> str:
    """A name for a run that begins now."""
    return f"{now:%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}"


def runs_in(output: str) -> list[str]:
    """The names of the runs in a folder, in their order; a person may have put other folders there."""
    with named_in_errors(output):
        paths = [entry.path for entry in matching(join(literal(output), RUNS, "*", RUN))]
    names = sorted(path.split("/")[-2] for path in paths)
    return [name for name in names if re.match(r"\d{8}T\d{6}Z-", name)]


@contextlib.contextmanager
def owned_by_stream(place: Placed, about: dict[str, str]) -> Iterator[None]:
    """Hold the output folder while a run writes to it; the run's own folder gets a ``run.json``.

    Args:
        place: the run, as :func:`placed` found it before anybody held the folder.
        about: what its file says of the feed.

    Raises:
        UserError: if this run may not use the folder, another run writes there or has written there since,
            or a file's name is too long.
    """
    output = place.output
    # As long as the names of its files get.
    names = (snapshot_name(output.study.name, name, (1, 2), output.run) for name in output.study.estimated)
    longest = max(map(len, names))
    if longest > MOST_CHARACTERS:
        raise UserError(
            f"--output {output.output}: the names of its files would have {longest} characters, more than "
            "file systems take; give the study, its attributes or coordinates shorter names"
        )
    with owned(output, STREAMS, at_once=False):
        again = placed(replace(output, run="", earlier_runs=()), datetime.now(UTC))
        if (again.manifest, again.output.earlier_runs) != (place.manifest, output.earlier_runs):
            raise UserError(f"--output {output.output}: another run has just written there; start again")
        with named_in_errors(output.output):
            path = output.of_run(RUN)
            if not exists(path):
                fields = {**STREAMS.mark_of(output), "run": output.run, "spool": output.spool_root, **about}
                write_json(path, fields)
        yield
