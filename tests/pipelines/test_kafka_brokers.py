"""Questions to the brokers of a topic of Kafka, without a server: tests/integration has one."""

from __future__ import annotations

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
