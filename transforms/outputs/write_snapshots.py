"""Writing the snapshots of a batch run as a Beam transform."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam

from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study
from ldpbeam.transforms.outputs.snapshots import (
    encoded,
    shared_number,
    window_of,
    write_shared,
    write_window,
)
from ldpbeam.windows import Bounds

#: The tag of windows that share files.
_SHARED = "shared"
#: A window, and the compressed records of its snapshots: a long histogram of few reports has zeros.
_Window = tuple[Bounds, list[bytes]]


@dataclass(eq=False)
class WriteSnapshots(beam.PTransform):
    """Write (attribute, snapshots of one window) to Avro files; gives the paths.

    Attributes:
        study: the study.
        folder: the folder of the files.
        run: the name of the run.
    """

    study: Study
    folder: str
    run: str

    def expand(self, snapshots: beam.PCollection[tuple[str, list[Snapshot]]]) -> beam.PCollection[str]:
        """Write a file for each window, and bring those together that share one."""
        study, folder = self.study, self.folder
        written = snapshots | "WriteFiles" >> beam.FlatMap(self._of_window).with_outputs(
            _SHARED, main="paths"
        ).with_output_types(str, **{_SHARED: tuple[tuple[str, int], _Window]})
        shared = (
            written[_SHARED]
            | "ShareFiles" >> beam.GroupByKey()
            | "WriteShared"
            >> beam.MapTuple(lambda key, windows: _write_shared(study, folder, key[0], windows))
        )
        return (written.paths, shared) | "AllFiles" >> beam.Flatten()

    def _of_window(self, element: tuple[str, list[Snapshot]]) -> Iterator[Any]:
        attribute, snapshots = element
        number = shared_number(self.study, snapshots)
        if number is None:
            yield write_window(self.study, self.folder, self.run, snapshots)
        else:
            records = [zlib.compress(record, 1) for record in encoded(self.study, self.run, snapshots)]
            shared = (attribute, number), (window_of(snapshots[0]), records)
            yield beam.pvalue.TaggedOutput(_SHARED, shared)


def _write_shared(study: Study, folder: str, attribute: str, windows: Iterable[_Window]) -> str:
    in_order = [(window, record) for window, records in sorted(windows) for record in records]
    records = (zlib.decompress(record) for _, record in in_order)
    return write_shared(study, folder, attribute, [window for window, _ in in_order], records)
