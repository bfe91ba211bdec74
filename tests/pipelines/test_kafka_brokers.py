"""Questions to the brokers of a topic of Kafka, without a server: tests/integration has one."""

from __future__ import annotations

import re
import types
from concurrent.futures import Future
from typing import Any

import pytest

from ldpbeam.pipelines.errors import UserError
from ldpbeam.pipelines.runs.kafka_brokers import READ, Brokers
from ldpbeam.transforms.sources.kafka_client import KafkaTopic


def test_a_broker_that_has_just_started_is_asked_for_its_groups_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    brokers = Brokers("--kafka", KafkaTopic("localhost:1", "t"), READ)
    committed = types.SimpleNamespace(topic_partitions=[kafka.TopicPartition("t", 0, 7)])

    class Answers:
        def __init__(self, *codes: int) -> None:
            self.errors = [kafka.KafkaException(kafka.KafkaError(code)) for code in codes]

        def poll(self, seconds: float) -> None:
            """No error of a connection."""

        def list_consumer_group_offsets(self, asked: Any, request_timeout: float) -> dict[str, Future[Any]]:
            answer: Future[Any] = Future()
            if self.errors:
                answer.set_exception(self.errors.pop(0))
            else:
                answer.set_result(committed)
            return {"g": answer}

    loading, without_right = 14, 30
    monkeypatch.setattr(brokers, "_client", Answers(loading, loading))
    assert brokers.has_committed("g", [0])
    monkeypatch.setattr(brokers, "_client", Answers(loading, without_right))
    with pytest.raises(UserError, match="--group g: this user may not commit offsets"):
        brokers.has_committed("g", [0])
    monkeypatch.setattr("ldpbeam.pipelines.runs.kafka_brokers.BROKER_SECONDS", 0.0)
    monkeypatch.setattr(brokers, "_client", Answers(loading, loading, loading))
    with pytest.raises(UserError, match="the brokers refuse"):
        brokers.has_committed("g", [0])


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (3, "--topic t: localhost:1 has no topic of this name, or hides it from this user"),
        (29, "--topic t: this user may not read it at localhost:1; give it the rights Describe and Read"),
        (35, "--kafka localhost:1: the brokers refuse: "),
    ],
    ids=["unknown topic", "no right to the topic", "another refusal"],
)
def test_what_brokers_refuse_is_said_with_what_to_do(
    code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    brokers = Brokers("--kafka", KafkaTopic("localhost:1", "t"), READ)
    refused: Future[Any] = Future()
    refused.set_exception(kafka.KafkaException(kafka.KafkaError(code)))
    refusing = types.SimpleNamespace(poll=lambda _: None, describe_topics=lambda *_, **__: {"t": refused})
    monkeypatch.setattr(brokers, "_client", refusing)
    with pytest.raises(UserError, match=f"^{re.escape(said)}"):
        brokers.partitions()
