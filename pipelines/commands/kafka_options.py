"""What the options of Kafka ask for, which reading a span of a topic and reading a stream share."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ldpbeam.errors import UserError
from ldpbeam.inputs.kafka import topic_of
from ldpbeam.runners.engines import EngineRequest
from ldpbeam.transforms.sources.kafka_client import KafkaTopic


def kafka_topic(
    options: argparse.Namespace, engine: EngineRequest, of_kafka: Sequence[str]
) -> KafkaTopic | None:
    """The topic of Kafka that is read; None if something else is.

    Args:
        options: the options of the command.
        engine: the engine.
        of_kafka: the options that only a topic of Kafka can obey.

    Raises:
        UserError: if the topic is malformed or missing, or something else is read and has such an option.
    """
    if options.kafka is None:
        for name in of_kafka:
            if getattr(options, name) is not None:
                raise UserError(f"--{name.replace('_', '-')} goes with --kafka BROKERS --topic T")
        return None
    if options.topic is None:
        raise UserError("--kafka goes with --topic T")
    return topic_of(options.kafka, options.topic, kafka_config(options, engine))


def kafka_config(options: argparse.Namespace, engine: EngineRequest) -> str | None:
    """The path of the file of settings for clients of Kafka, as workers reach it; None for none."""
    return None if options.kafka_config is None else engine.reachable(options.kafka_config)
