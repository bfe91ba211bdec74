"""``pipeline | ReadReports(study, patterns)``: reports from files or from a topic of Kafka."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import apache_beam as beam

from ldpbeam.errors import UserError
from ldpbeam.inputs.files import check_stamps, find_input
from ldpbeam.inputs.kafka import SCHEME, span_of, topic_at
from ldpbeam.inputs.kafka_brokers import EARLIEST, LATEST
from ldpbeam.inputs.times import offset_of
from ldpbeam.library.study import study_of
from ldpbeam.study import Study
from ldpbeam.transforms.reports.counts import COUNTS
from ldpbeam.transforms.reports.dead_letters import DEAD, disclosure_for
from ldpbeam.transforms.reports.validation import checked_columns
from ldpbeam.transforms.sources.batch_input import BatchInput
from ldpbeam.transforms.sources.read_input import ReadInput


class ReportsRead(NamedTuple):
    """The output of :class:`ReadReports`, an input of :class:`Estimate` and :class:`Statistics`.

    Attributes:
        reports: decoded RecordBatches; each names its file in the metadata of its schema.
        dead_letters: RecordBatches of inputs that did not decode, with the columns of ``dead_letter.avsc``.
        counts: (name, reports).
    """

    reports: beam.PCollection
    dead_letters: beam.PCollection
    counts: beam.PCollection


class ReadReports(beam.PTransform):
    """Read files of reports: Avro, Parquet, JSON lines (gzipped or not), on this machine or in object stores.

    Or read a span of a topic of Kafka, ``kafka://HOST:PORT/TOPIC``. Files are found and recognised, and
    offsets of the topic are requested, when the pipeline is built. Workers read ranges of them. The output is
    :class:`ReportsRead`, an input of ``Estimate``.

    Args:
        study: as for :class:`Estimate`.
        patterns: a name or a glob of files, or several; or one topic of Kafka.
        attribute: the attribute of reports that do not name one, as for :class:`Estimate`.
        service: the service of reports that do not name one.
        columns: the names of columns in files, by our names, as for :class:`Estimate`.
        skip_bad_files: whether a malformed file is a dead letter; if not, it is an error.
        user_id_key: as for :class:`Estimate`; give both the same key.
        keep_bad_records: as for :class:`Estimate`.
        from_offset: for Kafka, the start in each partition: ``earliest``, ``latest``, or a time of the
            brokers in RFC 3339 or epoch milliseconds.
        to_offset: for Kafka, the end; ``latest`` is the end when the pipeline is built.
        kafka_config: for Kafka, a file of settings of librdkafka, which every worker can read.

    Raises:
        ldpbeam.StudyError: if the study is invalid.
        ValueError: if the key is too short, ``columns`` is invalid, there is no pattern, one matches no file,
        a file is malformed and not skipped, the reports of a file were made for another study by its stamp,
        or the topic cannot be reached.
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
        from_offset: str = EARLIEST,
        to_offset: str = LATEST,
        kafka_config: str | None = None,
    ) -> None:
        super().__init__()
        study = study_of(study)
        patterns = [patterns] if isinstance(patterns, str) else list(patterns)
        self.columns = checked_columns(study, attribute, service, whole=keep_bad_records, renamed=columns)
        self.disclosure = disclosure_for(study, keep_bad_records, user_id_key)
        hidden = self.disclosure.hides
        self.input: BatchInput
        if not patterns:
            raise ValueError("patterns is empty, so nothing would be read")
        try:
            if len(patterns) == 1 and patterns[0].startswith(SCHEME):
                begin = offset_of("from_offset", from_offset, EARLIEST)
                end = offset_of("to_offset", to_offset, LATEST)
                self.input = span_of(topic_at("patterns", patterns[0], kafka_config), begin, end)
                return
            self.input = find_input(patterns, "skip" if skip_bad_files else "stop", hidden=hidden)
            check_stamps(self.input.files, study, self.columns, hidden=hidden)
        except UserError as error:
            text = str(error).replace("--on-bad-file skip", "skip_bad_files=True")
            raise ValueError(text.replace("--input", "patterns")) from None

    def expand(self, pipeline: beam.Pipeline) -> ReportsRead:
        """Split the input into ranges, spread them over the workers, and decode each range."""
        outputs = pipeline | "Read" >> ReadInput(self.input, self.columns, self.disclosure)
        return ReportsRead(outputs.decoded, outputs[DEAD], outputs[COUNTS])
