"""Questions to the brokers of a topic of Kafka, without a server: tests/integration has one."""

from __future__ import annotations

import re
import types
from concurrent.futures import Future
from typing import Any

import pytest

from ldpbeam.errors import UserError
from ldpbeam.inputs.kafka_brokers import READ, Brokers
from ldpbeam.transforms.sources.kafka_client import KafkaTopic


def test_a_broker_that_has_just_started_is_asked_for_its_groups_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    brokers = Brokers("--kafka", KafkaTopic("localhost:1", "t"), READ)

    class Answers:
        """A consumer whose coordinator refuses with some codes, and the group with others."""

        def __init__(self, *codes: int, of_group: int | None = None) -> None:
            self.errors = [kafka.KafkaException(kafka.KafkaError(code)) for code in codes]
            self.refused = of_group and types.SimpleNamespace(error=lambda: kafka.KafkaError(of_group))
            self.closed = False

        def committed(self, places: Any, timeout: float) -> list[Any]:
            if self.errors:
                raise self.errors.pop(0)
            return [kafka.TopicPartition("t", 0, 7)]

        def poll(self, seconds: float) -> Any:
            return self.refused

        def close(self) -> None:
            self.closed = True

    def ask(answers: Answers) -> bool:
        monkeypatch.setattr("ldpbeam.inputs.kafka_brokers.client", lambda *_: answers)
        try:
            return brokers.has_committed("g", [0])
        finally:
            assert answers.closed

    loading, no_right, no_coordinator = 14, 30, kafka.KafkaError._TIMED_OUT
    assert ask(Answers(loading, no_coordinator, loading))
    for answers in (Answers(loading, no_right), Answers(no_coordinator, of_group=no_right)):
        with pytest.raises(UserError, match="--group g: this user may not commit offsets"):
            ask(answers)
    monkeypatch.setattr("ldpbeam.inputs.kafka_brokers.BROKER_SECONDS", 0.0)
    with pytest.raises(UserError, match="the brokers refuse"):
        ask(Answers(loading, loading, loading))


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


def test_a_partition_that_has_no_leader_yet_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    brokers = Brokers("--kafka", KafkaTopic("localhost:1", "t"), READ)
    codes = [kafka.KafkaError.NOT_LEADER_FOR_PARTITION, kafka.KafkaError.LEADER_NOT_AVAILABLE]

    def list_offsets(places: Any, **_: Any) -> Any:
        answer: Future[Any] = Future()
        if codes:
            answer.set_exception(kafka.KafkaException(kafka.KafkaError(codes.pop(0))))
        else:
            answer.set_result(types.SimpleNamespace(offset=7))
        return dict.fromkeys(places, answer)

    monkeypatch.setattr(
        brokers, "_client", types.SimpleNamespace(poll=lambda _: None, list_offsets=list_offsets)
    )
    assert brokers.offsets([3], "latest") == {3: 7}
    codes.append(kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(UserError, match="this user may not read it"):
        brokers.offsets([3], "latest")
