"""Snapshots of an attribute's window as a file: one function writes them in batch, stream and roll-up."""

from __future__ import annotations

from collections.abc import Iterator

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems

from ldpbeam.schemas.outputs.snapshots import Snapshot, write_snapshots
from ldpbeam.study import Study
from ldpbeam.transforms.outputs.names import snapshot_name
from ldpbeam.transforms.storage import make_folder, replacing


def write_window(
    study: Study, folder: str, run: str, snapshots: list[Snapshot], *, named_by_run: bool = False
) -> str:
    """A file of the snapshots of one attribute and window; gives its path."""
    attribute = snapshots[0].attribute
    name = snapshot_name(study.name, attribute, snapshots[0].window, run if named_by_run else "")
    path: str = FileSystems.join(folder, name)
    make_folder(folder)
    with replacing(path) as stream:
        write_snapshots(
            stream,
            snapshots,
            study.attribute(attribute),
            study=study.name,
            study_fingerprint=study.fingerprint,
            run=run,
        )
    return path


class WriteSnapshots(beam.PTransform):
    """(attribute, snapshots of one window) to one Avro file each; gives the paths."""

    def __init__(self, study: Study, folder: str, run: str) -> None:
        super().__init__()
        self.function = _WriteSnapshots(study, folder, run)

    def expand(self, snapshots: beam.PCollection) -> beam.PCollection:
        """Wire the stage."""
        return snapshots | "WriteFiles" >> beam.ParDo(self.function)


class _WriteSnapshots(beam.DoFn):
    def __init__(self, study: Study, folder: str, run: str) -> None:
        self.study = study
        self.folder = folder
        self.run = run

    def process(self, element: tuple[str, list[Snapshot]]) -> Iterator[str]:
        yield write_window(self.study, self.folder, self.run, element[1])
