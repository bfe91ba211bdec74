"""``pipeline | ReadReports(study, patterns)``: files of reports, read as by ``ldpbeam estimate``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import apache_beam as beam

from ldpbeam.library.study import study_of
from ldpbeam.pipelines.errors import UserError
from ldpbeam.pipelines.runs.inputs import check_stamps, find_input
from ldpbeam.study import Study
from ldpbeam.transforms.reports.counts import COUNTS
from ldpbeam.transforms.reports.dead_letters import DEAD, Disclosure
from ldpbeam.transforms.reports.validation import columns_or_only
from ldpbeam.transforms.sources import read


class ReportsRead(NamedTuple):
    """What :class:`ReadReports` gives, and :class:`Estimate` and :class:`Statistics` take.

    Attributes:
        reports: decoded RecordBatches; each names its file in the metadata of its schema.
        dead_letters: RecordBatches of what did not decode, with the columns of ``dead_letter.avsc``.
        counts: (name, reports).
    """

    reports: beam.PCollection
    dead_letters: beam.PCollection
    counts: beam.PCollection


class ReadReports(beam.PTransform):
    """Read files of reports: Avro, Parquet or JSON lines (gzipped or not), on any file system of Beam.

    The files are found and recognised when the pipeline is built. They are read in ranges, which are spread
    over the workers. Gives :class:`ReportsRead`, which ``Estimate`` takes as it is.

    Args:
        study: as of :class:`Estimate`.
        patterns: a name or a glob of files, or several.
        attribute: the attribute of reports that do not name one, as of :class:`Estimate`.
        service: the service of reports that do not name one.
        columns: the field of a file that has a column, by the column's name, as of :class:`Estimate`.
        skip_bad_files: whether a malformed file is a dead letter; if not, it is an error.
        user_id_key: as of :class:`Estimate`; give both the same.
        keep_bad_records: as of :class:`Estimate`.

    Raises:
        ldpbeam.StudyError: if the study is invalid.
        ValueError: if the key is too short, ``columns`` cannot be, a pattern matches no file, a file is
            malformed and not skipped, or the stamp of a file says that its reports were made for another
            study.
    """

    def __init__(
        self,
        study: Study | str | os.PathLike[str] | Mapping[str, Any],
        patterns: str | Sequence[str],
        *,
        attribute: str | None = None,
        service: str | None = None,
        columns: Mapping[str, str] | None = None,
        skip_bad_files: bool = False,
        user_id_key: bytes | None = None,
        keep_bad_records: bool = False,
    ) -> None:
        super().__init__()
        self.study = study_of(study)
        self.patterns = [patterns] if isinstance(patterns, str) else list(patterns)
        self.columns = columns_or_only(
            self.study, attribute, service, whole=keep_bad_records, renamed=columns
        )
        self.disclosure = Disclosure(keep_bad_records, user_id_key)
        hidden = user_id_key is not None
        try:
            good, bad = find_input(self.patterns, "skip" if skip_bad_files else "stop", hidden=hidden)
            check_stamps(good, self.study, self.columns.attribute, self.columns.service, hidden=hidden)
        except UserError as error:
            raise ValueError(str(error)) from None
        self.files, self.bad_files = list(good), list(bad)

    def expand(self, pipeline: beam.Pipeline) -> ReportsRead:
        """Split the files into ranges, spread them over the workers, and decode each range."""
        outputs = pipeline | "Read" >> read.ReadReports(
            self.files, self.bad_files, self.columns, self.disclosure
        )
        return ReportsRead(outputs.decoded, outputs[DEAD], outputs[COUNTS])

    def display_data(self) -> dict[str, Any]:
        """Which files are read, for the pages of runners."""
        return {
            "study": self.study.name,
            "patterns": ", ".join(self.patterns),
            "files": len(self.files),
            "bytes": sum(file.size for file in self.files),
        }
