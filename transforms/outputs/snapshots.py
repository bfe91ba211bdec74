"""Files of snapshots, which batch runs, streams and roll-ups write: one for each attribute and window.

In a batch run, the windows of an attribute that have too few users for an estimate share a few files: each
event time makes a window, and a file of its own takes longer to write and to read than all else about it.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable, Iterator, Sequence

from ldpbeam.schemas.outputs.snapshots import Snapshot, encode_snapshot, write_encoded
from ldpbeam.study import Study
from ldpbeam.transforms.outputs.names import shared_name, snapshot_name
from ldpbeam.transforms.storage import join, make_folder, replacing
from ldpbeam.windows import Bounds

#: The most files that the windows of an attribute share.
SHARED_FILES = 16


def write_window(
    study: Study, folder: str, run: str, snapshots: list[Snapshot], *, named_by_run: bool = False
) -> str:
    """Write the snapshots of one attribute and window to a file, and return its path.

    Args:
        study: the study; the file carries its name, fingerprint and channels.
        folder: the folder of the file, created if it does not exist.
        run: the name of the run, which the file carries.
        snapshots: at least one, all of the same attribute and window.
        named_by_run: whether the name of the file has the run's, for folders that runs share.
    """
    first = snapshots[0]
    name = snapshot_name(study.name, first.attribute, first.window, run if named_by_run else "")
    path = join(folder, name)
    make_folder(folder)
    joined = any(snapshot.joined for snapshot in snapshots)
    # A batch run that the power ends is run again, and may have many thousand windows.
    records = encoded(study, run, snapshots)
    _write(study, path, first.attribute, records, len(snapshots), joined=joined, durable=named_by_run)
    return path


def write_together(study: Study, path: str, snapshots: Sequence[Snapshot]) -> None:
    """Write snapshots of an attribute and run to a file; one that is there twice is written once."""
    first = snapshots[0]
    records = dict.fromkeys(encoded(study, first.run, snapshots))
    joined = any(snapshot.joined for snapshot in snapshots)
    _write(study, path, first.attribute, records, len(records), joined=joined, durable=True)


def snapshot_file(study: Study, run: str, snapshots: Sequence[Snapshot]) -> bytes:
    """The file of the snapshots of one attribute and window."""
    file = io.BytesIO()
    attribute = study.attribute(snapshots[0].attribute)
    write_encoded(file, encoded(study, run, snapshots), len(snapshots), attribute)
    return file.getvalue()


def encoded(study: Study, run: str, snapshots: Iterable[Snapshot]) -> Iterator[bytes]:
    """The records of snapshots."""
    about = {"study": study.name, "study_fingerprint": study.fingerprint, "run": run}
    return (encode_snapshot(each, study.attribute(each.attribute), **about) for each in snapshots)


def _write(
    study: Study,
    path: str,
    name: str,
    records: Iterable[bytes],
    snapshots: int,
    *,
    joined: bool,
    durable: bool = False,
) -> None:
    """Write the records of a file.

    If they hold a row for each user, or what users sent in several windows, only the owner may read it.
    """
    attribute = study.attribute(name)
    with replacing(path, private=attribute.keeps_rows or joined, durable=durable) as stream:
        write_encoded(stream, records, snapshots, attribute)


def write_windows(study: Study, folder: str, run: str, snapshots: Iterable[Snapshot]) -> None:
    """Write the snapshots of a batch run, of which those of an attribute and window follow each other."""
    shared: dict[tuple[str, int], list[list[Snapshot]]] = {}
    for _, of_window in itertools.groupby(snapshots, lambda each: (each.attribute, each.window)):
        window = list(of_window)
        number = shared_number(study, window)
        if number is None:
            write_window(study, folder, run, window)
        else:
            shared.setdefault((window[0].attribute, number), []).append(window)
    for (attribute, _), windows in shared.items():
        in_order = sorted(itertools.chain.from_iterable(windows), key=window_of)
        write_shared(study, folder, attribute, list(map(window_of, in_order)), encoded(study, run, in_order))


def window_of(snapshot: Snapshot) -> Bounds:
    """The window of a snapshot that shares a file."""
    assert snapshot.window is not None
    return snapshot.window


def shared_number(study: Study, snapshots: list[Snapshot]) -> int | None:
    """The number of the file that a window shares with others of its attribute; None if it has its own."""
    window = snapshots[0].window
    enough = any(study.publish.has_enough(snapshot.statistic) for snapshot in snapshots)
    if window is None or snapshots[0].joined or enough:
        return None
    assert study.windows is not None
    return study.windows.steps.number(window[0]) % SHARED_FILES


def write_shared(
    study: Study, folder: str, attribute: str, windows: Sequence[Bounds], records: Iterable[bytes]
) -> str:
    """Write the windows of an attribute that share a file, and return its path.

    Args:
        study: the study.
        folder: the folder of the file.
        attribute: the attribute's name.
        windows: the window of each snapshot, ascending.
        records: the records of the snapshots.
    """
    path = join(folder, shared_name(study.name, attribute, (windows[0][0], windows[-1][1])))
    make_folder(folder)
    _write(study, path, attribute, records, len(windows), joined=False)
    return path
