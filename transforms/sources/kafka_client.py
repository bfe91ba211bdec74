"""A topic of Kafka, and its clients: the brokers, and a file for security and secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Settings that decide what is read, committed and published, and so are ldpbeam's.
_OURS = (
    "acks",
    "auto.offset.reset",
    "bootstrap.servers",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.idempotence",
    "enable.partition.eof",
    "group.id",
    "group.instance.id",
    "isolation.level",
    "metadata.broker.list",
)
#: Errors of brokers that pass by themselves: a broker starts or stops, a partition gets another leader, or a
#: topic is not yet known everywhere.
_PASSING = (
    "BROKER_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "FENCED_LEADER_EPOCH",
    "KAFKA_STORAGE_ERROR",
    "LEADER_NOT_AVAILABLE",
    "NETWORK_EXCEPTION",
    "NOT_COORDINATOR",
    "NOT_LEADER_FOR_PARTITION",
    "OFFSET_NOT_AVAILABLE",
    "REPLICA_NOT_AVAILABLE",
    "REQUEST_TIMED_OUT",
    "UNKNOWN_LEADER_EPOCH",
    "UNKNOWN_TOPIC_OR_PART",
)
#: librdkafka must have a group, even where nothing is committed.
NO_GROUP = "ldpbeam-without-a-group"
#: How messages are read: from an offset to the end of the partition, and nothing is committed by itself.
READING = {
    "group.id": NO_GROUP,
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
}
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def settings_in(path: str) -> dict[str, str]:
    """The settings in a file of lines ``name=value``, by the names of librdkafka.

    ``${NAME}`` in a value is the environment variable of that name. Empty lines and lines that begin with
    ``#`` are left out.

    Raises:
        ValueError: if the file cannot be read, a line is no setting, a setting is one that ldpbeam sets
            itself, or a variable is not set. The text never has a value in it.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: {getattr(error, 'strerror', None) or 'it is not text in UTF-8'}") from None
    settings: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not re.fullmatch(r"[a-z0-9._]+", name):
            raise ValueError(f"{path}, line {number}: write name=value, as in security.protocol=SASL_SSL")
        if name in _OURS:
            raise ValueError(f"{path}, line {number}: {name} is set by ldpbeam; leave the line out")
        for variable in _VARIABLE.findall(value):
            if variable not in os.environ:
                raise ValueError(
                    f"{path}, line {number}: {name} names the environment variable {variable}, which is not "
                    "set"
                )
        settings[name] = _VARIABLE.sub(lambda match: os.environ[match[1]], value)
    return settings


@dataclass(frozen=True)
class KafkaTopic:
    """A topic, and how it is reached.

    Attributes:
        brokers: ``host:port``, several separated by commas.
        name: the name of the topic.
        config: the path of a file of settings of librdkafka, on every worker; None for none. Its contents,
            which may be secret, are read where they are used and never sent.
    """

    brokers: str
    name: str
    config: str | None = None

    def __str__(self) -> str:
        """The topic and the brokers, as messages show them."""
        return f"{self.name} at {self.brokers}"


def client(kind: Any, topic: KafkaTopic, ours: Mapping[str, object]) -> Any:
    """A client of the brokers of a topic.

    Args:
        kind: a class of ``confluent_kafka``.
        topic: the topic.
        ours: the settings that ldpbeam makes.

    Raises:
        ValueError: if the settings are refused. The text names no value of the file.
    """
    from confluent_kafka import KafkaException

    given = {} if topic.config is None else settings_in(topic.config)
    try:
        # Errors reach the caller through its calls; librdkafka would print them besides.
        return kind({"log_level": 0, **given, **ours, "bootstrap.servers": topic.brokers})
    except KafkaException as error:
        refused = [name for name in given if f'"{name}"' in str(error)]
        if not refused:
            raise ValueError(
                f"{topic.brokers}: the client of Kafka could not be made: {_safe(error, given)}"
            ) from None
        raise ValueError(f"{topic.config}: librdkafka refuses the setting {' and '.join(refused)}") from None


def identity_of(admin: Any, topic: str, seconds: float) -> str:
    """What tells a topic from all others that have or had its name: the ids of its cluster and of the topic.

    Brokers before 2.8 give topics no ids; all of theirs are zero.

    Args:
        admin: an ``AdminClient``.
        topic: the name of the topic.
        seconds: how long to wait for an answer.

    Raises:
        KafkaException: if there is none.
    """
    from confluent_kafka import TopicCollection

    described = admin.describe_topics(TopicCollection([topic]), request_timeout=seconds)[topic]
    cluster = admin.describe_cluster(request_timeout=seconds)
    return f"{cluster.result().cluster_id}/{described.result().topic_id}"


def cleanup_policy(admin: Any, topic: str, seconds: float) -> str:
    """By what brokers delete messages of a topic; nothing if this user may not know."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import ConfigResource

    of_topic = ConfigResource(ConfigResource.Type.TOPIC, topic)
    try:
        settings = admin.describe_configs([of_topic], request_timeout=seconds)[of_topic].result()
    except KafkaException:
        return ""
    return str(settings["cleanup.policy"].value)


def passes(error: Any) -> bool:
    """Whether an error of librdkafka passes by itself.

    Those of the client, below zero, do: it connects again. ``KafkaError.retriable`` applies to transactions
    only.
    """
    return error.code() < 0 or error.code() in [getattr(error, name) for name in _PASSING]


def is_out_of_range(error: Any) -> bool:
    """Whether an error of librdkafka says that a partition does not have the offset that is to be read."""
    return error.code() in (error._AUTO_OFFSET_RESET, error.OFFSET_OUT_OF_RANGE)


def _safe(error: Exception, given: Mapping[str, str]) -> str:
    """The text of an error without the values that a file gave."""
    text = error.args[0].str() if error.args else str(error)
    for value in sorted(filter(None, given.values()), key=len, reverse=True):
        text = text.replace(value, "***")
    return str(text)
