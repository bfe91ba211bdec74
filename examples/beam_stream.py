"""A stream on more than one machine: Beam reads Pub/Sub or Kafka, and an engine of your choice estimates.

    python beam_stream.py --study study.yaml --subscription projects/P/subscriptions/S --output gs://B/out \
        --runner=DataflowRunner --project=P --region=R --temp_location=gs://B/tmp --sdk_container_image=IMAGE
    python beam_stream.py --study study.yaml --kafka HOST:9092 --topic reports --output /srv/out \
        --runner=FlinkRunner --flink_master=HOST:8081 --flink_version=1.19 --checkpointing_interval=2000 \
        --finish_bundle_before_checkpointing

docs/beam.md says what is exact.
"""

import argparse
import json
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.io.kafka import ReadFromKafka
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

import ldpbeam as ldp


def messages(pipeline: beam.Pipeline, given: argparse.Namespace) -> beam.PCollection:
    """What arrives, each message with its attributes or headers."""
    if given.kafka is None:
        return pipeline | beam.io.ReadFromPubSub(subscription=given.subscription, with_attributes=True)
    return pipeline | ReadFromKafka(
        # The engine's checkpoints hold the offsets. The second setting is for the first start.
        {"bootstrap.servers": given.kafka, "auto.offset.reset": "earliest"},
        [given.topic],
        with_metadata=True,
        # The watermark is the newest time that a client gave a message.
        timestamp_policy=ReadFromKafka.create_time_policy,
        expansion_service=given.expansion_service,
    )


class WriteLines(beam.DoFn):
    """Write the rows of a bundle as JSON lines into a file that appears whole.

    An engine that goes back to a checkpoint writes panes again. The names of files say in which order they
    were written: of the rows of one attribute, window, group and estimate, the last one is right.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def start_bundle(self) -> None:
        """Begin a file."""
        self.lines: list[str] = []

    def process(self, row: Mapping[str, Any]) -> None:
        """Keep a row for it."""
        self.lines.append(json.dumps(row) + "\n")

    def finish_bundle(self) -> None:
        """Write it, if it has rows."""
        if self.lines:
            name = f"{self.folder}/{time.time_ns()}-{uuid.uuid4().hex}.jsonl"
            with FileSystems.create(f"{name}.part") as file:
                file.write("".join(self.lines).encode())
            FileSystems.rename([f"{name}.part"], [name])


def build(pipeline: beam.Pipeline, given: argparse.Namespace) -> None:
    """Read, estimate and write; what became of reports is in the engine's counters."""
    with FileSystems.open(given.study) as file:
        study = file.read().decode()
    found = (messages(pipeline, given) | ldp.beam.Estimate(study)).as_dicts()
    for name in ("estimates", "dead_letters"):
        lines = WriteLines(f"{given.output}/{name}")
        _ = getattr(found, name) | f"Write {name}" >> beam.ParDo(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Start the stream; options that are not listed here are the engine's."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--study", required=True)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--subscription", help="Pub/Sub, on Dataflow")
    source.add_argument("--kafka", help="HOST:PORT")
    parser.add_argument("--topic", help="of Kafka")
    parser.add_argument("--expansion-service", help="HOST:PORT; without it Beam starts its own, with Java")
    parser.add_argument("--output", required=True, help="a folder that every worker can write to")
    given, engine = parser.parse_known_args(arguments)
    if (given.kafka is None) != (given.topic is None):
        parser.error("--kafka and --topic go together")
    options = PipelineOptions(engine, streaming=True)
    pipeline = beam.Pipeline(options=options)
    build(pipeline, given)
    result = pipeline.run()
    # A job on Dataflow goes on by itself, and what a Flex Template starts must not wait.
    if options.view_as(StandardOptions).runner != "DataflowRunner":
        result.wait_until_finish()


if __name__ == "__main__":
    main()
