"""Files of snapshots, one per attribute and window, which batch runs, streams and roll-ups write."""

from __future__ import annotations

from dataclasses import dataclass

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems

from ldpbeam.schemas.outputs.snapshots import Snapshot, write_snapshots
from ldpbeam.study import Study
from ldpbeam.transforms.outputs.names import snapshot_name
from ldpbeam.transforms.storage import make_folder, replacing


def write_window(
    study: Study, folder: str, run: str, snapshots: list[Snapshot], *, named_by_run: bool = False
) -> str:
    """Write the snapshots of one attribute and window to a file, and return its path.

    If they hold a row for each user, or what users sent in several windows, only the owner may read the file.

    Args:
        study: the study; the file carries its name, fingerprint and channels.
        folder: the folder of the file, created if it does not exist.
        run: the name of the run, which the file carries.
        snapshots: at least one, all of the same attribute and window.
        named_by_run: whether the name of the file has the run's, for folders that runs share.
    """
    attribute = study.attribute(snapshots[0].attribute)
    name = snapshot_name(study.name, attribute.name, snapshots[0].window, run if named_by_run else "")
    path: str = FileSystems.join(folder, name)
    make_folder(folder)
    joined = any(snapshot.joined for snapshot in snapshots)
    private = attribute.keeps_rows or joined
    # A batch run that the power ends is run again, and may have many thousand windows.
    with replacing(path, private=private, durable=named_by_run) as stream:
        write_snapshots(
            stream, snapshots, attribute, study=study.name, study_fingerprint=study.fingerprint, run=run
        )
    return path


@dataclass(eq=False)
class WriteSnapshots(beam.PTransform):
    """Write (attribute, snapshots of one window) to an Avro file each; gives the paths."""

    study: Study
    folder: str
    run: str

    def expand(self, snapshots: beam.PCollection[tuple[str, list[Snapshot]]]) -> beam.PCollection[str]:
        """Write one file for each element."""
        study, folder, run = self.study, self.folder, self.run
        return snapshots | "WriteFiles" >> beam.MapTuple(
            lambda _, window_snapshots: write_window(study, folder, run, window_snapshots)
        )
