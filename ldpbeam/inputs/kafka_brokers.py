"""Requests to Kafka's brokers; without an answer, the error says why, and what to do."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from typing import Any

from ldpbeam.errors import UserError
from ldpbeam.transforms.offsets import Checksum
from ldpbeam.transforms.sources.kafka_checksums import checksums_at
from ldpbeam.transforms.sources.kafka_client import KafkaTopic, cleanup_policy, client, identity_of, passes

#: Seconds to wait for brokers that do not answer.
BROKER_SECONDS = 10.0
#: Seconds after which the coordinator of a group is asked again.
ASKING_SECONDS = 2.0
EARLIEST, LATEST = "earliest", "latest"
#: The rights to a topic, by the names of Kafka's access control.
READ, WRITE = "Read", "Write"


class Brokers:
    """The brokers of a topic; every method raises UserError if they refuse or do not answer.

    Args:
        option: the option that names the brokers.
        topic: the topic.
        right: the right that this user needs: :data:`READ` or :data:`WRITE`.

    Raises:
        UserError: if a client cannot be created.
    """

    def __init__(self, option: str, topic: KafkaTopic, right: str) -> None:
        try:
            import confluent_kafka
            from confluent_kafka import admin
        except ImportError:
            raise UserError("Kafka needs confluent-kafka: pip install 'ldpbeam[kafka]'") from None
        self.option = option
        self.topic = topic
        self.right = right
        self._kafka = confluent_kafka
        self._admin = admin
        self._errors: list[Any] = []
        self._waiting = {"request_timeout": BROKER_SECONDS}
        try:
            self._client = client(admin.AdminClient, topic, {"error_cb": self._errors.append})
        except ValueError as error:
            raise UserError(f"{option} {error}") from None

    def partitions(self) -> list[int]:
        """The partitions of the topic, if this user has the right to it."""
        described = self._answer(self._described())
        try:
            rights = self._result(self._described(include_authorized_operations=True)).authorized_operations
        except self._kafka.KafkaException:  # brokers before 2.3 do not say
            rights = None
        if rights and self._admin.AclOperation[self.right.upper()] not in rights:
            raise UserError(self._without_right())
        return sorted(partition.id for partition in described.partitions)

    def identity(self) -> str:
        """The text that distinguishes the topic from others of its name."""
        try:
            return identity_of(self._client, self.topic.name, BROKER_SECONDS)
        except self._kafka.KafkaException as error:
            raise UserError(self._sentence(error.args[0], "")) from None

    def has(self, checksums: Mapping[int, Checksum]) -> dict[int, bool]:
        """By partition, whether a message is still the one that was read."""
        try:
            there = checksums_at(self.topic, {n: checksum.offset for n, checksum in checksums.items()})
        except self._kafka.KafkaException as error:
            raise UserError(self._sentence(error.args[0], "")) from None
        return {n: there[n] == checksum for n, checksum in checksums.items()}

    def offsets(self, partitions: Iterable[int], where: str | int) -> dict[int, int]:
        """The offset of a place by partition.

        Args:
            partitions: the partitions.
            where: :data:`EARLIEST` for the first existing message, :data:`LATEST` for the end, or a time of
                the brokers in epoch milliseconds for the first message from then on; the offset is below 0 if
                there is none.
        """
        spec = self._admin.OffsetSpec
        words = {EARLIEST: spec.earliest(), LATEST: spec.latest()}
        wanted = words[where] if isinstance(where, str) else spec.for_timestamp(where)
        places = {self._kafka.TopicPartition(self.topic.name, partition): wanted for partition in partitions}
        end = time.monotonic() + BROKER_SECONDS
        while True:
            # Readers get no messages of an open transaction.
            answers = self._client.list_offsets(
                places, isolation_level=self._kafka.IsolationLevel.READ_COMMITTED, **self._waiting
            )
            try:
                return {place.partition: self._result(future).offset for place, future in answers.items()}
            except self._kafka.KafkaException as error:
                problem = error.args[0]
            # A partition may have no leader for a moment, for example when its topic is new.
            if problem.code() < 0 or not passes(problem) or time.monotonic() > end:
                raise UserError(self._sentence(problem, ""))
            time.sleep(0.2)

    def has_committed(self, group: str, partitions: Iterable[int]) -> bool:
        """Whether somebody has committed offsets of the topic for a group."""
        places = [self._kafka.TopicPartition(self.topic.name, partition) for partition in partitions]
        # A consumer asks, because librdkafka's AdminClient ends the process with a segmentation fault if the
        # broker does not coordinate the group, as is the case just after it starts.
        settings = {"group.id": group, "error_cb": self._errors.append}
        end = time.monotonic() + BROKER_SECONDS
        with contextlib.closing(client(self._kafka.Consumer, self.topic, settings)) as consumer:
            while True:
                try:
                    return any(place.offset >= 0 for place in consumer.committed(places, ASKING_SECONDS))
                except self._kafka.KafkaException as error:
                    # A refusal of the group comes as a message, and the question only finds no coordinator.
                    message = consumer.poll(0)
                    refusal = error.args[0] if message is None else message.error()
                if not passes(refusal) or time.monotonic() > end:
                    raise UserError(self._sentence(refusal, group))
                time.sleep(0.2)

    def cleanup_policy(self) -> str:
        """The policy by which brokers delete the topic's messages; empty if this user may not know."""
        return cleanup_policy(self._client, self.topic.name, BROKER_SECONDS)

    def _described(self, **given: Any) -> Future[Any]:
        named = self._kafka.TopicCollection([self.topic.name])
        described: dict[str, Future[Any]] = self._client.describe_topics(named, **self._waiting, **given)
        return described[self.topic.name]

    def _answer(self, future: Future[Any]) -> Any:
        try:
            return self._result(future)
        except self._kafka.KafkaException as error:
            raise UserError(self._sentence(error.args[0], "")) from None

    def _result(self, future: Future[Any]) -> Any:
        """The answer. Stop waiting once all brokers have failed and one has refused.

        Raises:
            KafkaException: if there is none.
        """
        while not wait([future], 0.05).done:
            self._client.poll(0)  # errors of connections are said in a poll only
            all_failed = any(error.code() == error._ALL_BROKERS_DOWN for error in self._errors)
            refusal = self._refusal()
            if all_failed and refusal is not None:
                raise self._kafka.KafkaException(refusal)
        self._client.poll(0)
        return future.result()

    def _refusal(self) -> Any:
        """The first connection error that retrying cannot fix; None if there is none."""
        final = (self._kafka.KafkaError._AUTHENTICATION, self._kafka.KafkaError._SSL)
        refusals = (error for error in self._errors if error.code() in final or _of_tls(error))
        return next(refusals, None)

    def _sentence(self, error: Any, group: str) -> str:
        """Why there was no answer, and what to do."""
        brokers, refusal = self.topic.brokers, self._refusal()
        where = f"{self.option} {brokers}"
        if error.code() == error.UNKNOWN_TOPIC_OR_PART:
            return f"{self._named()}: {brokers} has no topic of this name, or hides it from this user"
        if error.code() == error.TOPIC_AUTHORIZATION_FAILED:
            return self._without_right()
        if error.code() == error.GROUP_AUTHORIZATION_FAILED:
            return (
                f"--group {group}: this user may not commit offsets at {brokers}; give it the right Read on "
                "the group, or leave --group out"
            )
        if error.code() > 0:
            return f"{where}: the brokers refuse: {error.str()}"
        if refusal is not None and _of_tls(refusal):
            return (
                f"{where}: the TLS connection failed; correct security.protocol, ssl.ca.location or other "
                f"ssl settings in the file of --kafka-config: {refusal.str()}"
            )
        if refusal is not None:
            return (
                f"{where}: the broker refuses the user name, the password or the mechanism; correct "
                "sasl.username, sasl.password or sasl.mechanism in the file of --kafka-config: "
                f"{refusal.str()}"
            )
        errors = [error.str() for error in self._errors if error.code() != error._ALL_BROKERS_DOWN]
        if errors:
            return f"{where}: {errors[-1]}"
        return (
            f"{where}: no answer within {BROKER_SECONDS:.0f} seconds; if the brokers want TLS or a login, "
            "name their security.protocol in the file of --kafka-config"
        )

    def _named(self) -> str:
        option = "--topic" if self.option == "--kafka" else self.option
        return f"{option} {self.topic.name}"

    def _without_right(self) -> str:
        return (
            f"{self._named()}: this user may not {self.right.lower()} it at {self.topic.brokers}; give it "
            f"the rights Describe and {self.right} on the topic"
        )


def _of_tls(error: Any) -> bool:
    """Whether no connection with TLS came about; if the broker has none, only librdkafka's text says so."""
    return error.code() == error._SSL or "SSL handshake failed" in error.str()
