"""Writing the snapshots of a batch run as a Beam transform."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam

from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study
from ldpbeam.transforms.outputs.snapshots import Encoded, encoded, shared_number, write_shared, write_window

#: The tag of windows that share files.
_SHARED = "shared"


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
        ).with_output_types(str, **{_SHARED: tuple[tuple[str, int], Encoded]})
        shared = (
            written[_SHARED]
            | "ShareFiles" >> beam.GroupByKey()
            | "WriteShared"
            >> beam.MapTuple(lambda key, windows: write_shared(study, folder, key[0], windows))
        )
        return (written.paths, shared) | "AllFiles" >> beam.Flatten()

    def _of_window(self, element: tuple[str, list[Snapshot]]) -> Iterator[Any]:
        attribute, snapshots = element
        number = shared_number(self.study, snapshots)
        if number is None:
            yield write_window(self.study, self.folder, self.run, snapshots)
        else:
            shared = (attribute, number), encoded(self.study, self.run, snapshots)
            yield beam.pvalue.TaggedOutput(_SHARED, shared)
