"""A Pub/Sub server in this process, which real clients reach over gRPC and which fails on demand.

``with PubSubServer() as server`` listens on ``server.address``, the value for ``PUBSUB_EMULATOR_HOST``. It
knows topics, subscriptions, publish, pull, acknowledgements and deadlines, keeps the limits of the service,
and is as strict as that may be: an acknowledgement after its deadline never counts.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from google.protobuf.empty_pb2 import Empty
from google.pubsub_v1 import types
from pubsub_deliveries import Counts, Faults, Subscription

Context = grpc.ServicerContext
INVALID = grpc.StatusCode.INVALID_ARGUMENT
GLANCE = 0.02  # seconds between two looks at what time alone changes: deadlines, late messages, ended calls
EMPTY_PULL = 1.0  # seconds until a pull without messages is answered
PUBLISH_MESSAGES, PUBLISH_BYTES = 1000, 10 * 2**20


class PubSubServer:
    """Runs inside ``with``; ``faults`` may be set at any time, and strike what comes after."""

    def __init__(self) -> None:
        self.faults = Faults()
        self.port = 0
        self._changed = threading.Condition()  # guards all that follows
        self._topics: dict[str, Any] = {}
        self._subscriptions: dict[str, Subscription] = {}
        self._ids = itertools.count(1)
        self._paused = False
        self._server: grpc.Server
        self._workers: ThreadPoolExecutor

    def __enter__(self) -> PubSubServer:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    @property
    def address(self) -> str:
        """host:port."""
        return f"localhost:{self.port}"

    def pause(self) -> None:
        """Let every call hang until ``resume``."""
        self._set_paused(True)

    def resume(self) -> None:
        """Answer again."""
        self._set_paused(False)

    def drop_connections(self) -> None:
        """Break every connection and whatever runs on it; topics, messages and deadlines stay."""
        # The new one listens before the old one ends: a client refused once would wait for seconds.
        server, workers = self._server, self._workers
        self._start()
        server.stop(grace=None).wait()
        workers.shutdown()

    def counts(self, subscription: str) -> Counts:
        """Of the subscription of that full name."""
        with self._changed:
            found = self._subscriptions[subscription]
            found.expire(time.monotonic())
            return Counts(found.delivered, found.acked, len(found.unacked), len(found.leases))

    def _start(self) -> None:
        self._workers = ThreadPoolExecutor(max_workers=100, thread_name_prefix="pubsub-server")
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        self._server = grpc.server(self._workers, options=options)
        publisher = {
            "CreateTopic": self._unary(self._create_topic, types.Topic),
            "GetTopic": self._unary(self._get_topic, types.GetTopicRequest),
            "DeleteTopic": self._unary(self._delete_topic, types.DeleteTopicRequest),
            "Publish": self._unary(self._publish, types.PublishRequest),
        }
        subscriber = {
            "CreateSubscription": self._unary(self._create_subscription, types.Subscription),
            "GetSubscription": self._unary(self._get_subscription, types.GetSubscriptionRequest),
            "DeleteSubscription": self._unary(self._delete_subscription, types.DeleteSubscriptionRequest),
            "Pull": self._unary(self._pull, types.PullRequest),
            "Acknowledge": self._unary(self._acknowledge, types.AcknowledgeRequest),
            "ModifyAckDeadline": self._unary(self._modify_ack_deadline, types.ModifyAckDeadlineRequest),
        }
        self._server.add_registered_method_handlers("google.pubsub.v1.Publisher", publisher)
        self._server.add_registered_method_handlers("google.pubsub.v1.Subscriber", subscriber)
        self.port = self._server.add_insecure_port(self.address)
        self._server.start()

    def _stop(self) -> None:
        self._server.stop(grace=None).wait()
        self._workers.shutdown()

    def _unary(self, call: Callable[[Any, Context], Any], request_type: Any) -> grpc.RpcMethodHandler:
        def handle(request: Any, context: Context) -> Any:
            with self._changed:
                self._hang_while_paused(context)
                answer = call(request, context)
                self._changed.notify_all()
                return answer

        return grpc.unary_unary_rpc_method_handler(handle, request_type.pb().FromString, _bytes)

    def _set_paused(self, paused: bool) -> None:
        with self._changed:
            self._paused = paused
            self._changed.notify_all()

    def _hang_while_paused(self, context: Context) -> None:
        while self._paused:
            self._changed.wait(GLANCE)
            if not context.is_active() or context.time_remaining() == 0:
                context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "the caller has given up")

    def _create_topic(self, request: Any, context: Context) -> Any:
        _check_new(request.name, self._topics, context)
        self._topics[request.name] = request
        return request

    def _get_topic(self, request: Any, context: Context) -> Any:
        return _find(request.topic, self._topics, context)

    def _delete_topic(self, request: Any, context: Context) -> Any:
        _find(request.topic, self._topics, context)
        del self._topics[request.topic]
        for subscription in self._subscriptions.values():
            if subscription.config.topic == request.topic:
                subscription.config.topic = "_deleted-topic_"
        return Empty()

    def _create_subscription(self, request: Any, context: Context) -> Any:
        _find(request.topic, self._topics, context)
        _check_new(request.name, self._subscriptions, context)
        request.ack_deadline_seconds = request.ack_deadline_seconds or 10
        self._subscriptions[request.name] = Subscription(request)
        return request

    def _get_subscription(self, request: Any, context: Context) -> Any:
        return _find(request.subscription, self._subscriptions, context).config

    def _delete_subscription(self, request: Any, context: Context) -> Any:
        _find(request.subscription, self._subscriptions, context)
        del self._subscriptions[request.subscription]
        return Empty()

    def _publish(self, request: Any, context: Context) -> Any:
        _find(request.topic, self._topics, context)
        if not 0 < len(request.messages) <= PUBLISH_MESSAGES or request.ByteSize() > PUBLISH_BYTES:
            context.abort(INVALID, f"1 to {PUBLISH_MESSAGES} messages of {PUBLISH_BYTES} bytes in all")
        now = time.monotonic()
        readers = [s for s in self._subscriptions.values() if s.config.topic == request.topic]
        for message in request.messages:
            message.message_id = str(next(self._ids))
            message.publish_time.GetCurrentTime()
            for subscription in readers:
                subscription.unacked.add(message.message_id)
                subscription.put(message, now, first=True)
        return types.PublishResponse.pb()(message_ids=[m.message_id for m in request.messages])

    def _pull(self, request: Any, context: Context) -> Any:
        subscription = _find(request.subscription, self._subscriptions, context)
        end = time.monotonic() + (0 if request.return_immediately else EMPTY_PULL)
        taken: list[Any] = []
        while context.is_active():
            self._hang_while_paused(context)
            taken = subscription.take(request.max_messages, self.faults)
            if taken or time.monotonic() >= end:
                break
            self._changed.wait(GLANCE)
        return types.PullResponse.pb()(received_messages=taken)

    def _acknowledge(self, request: Any, context: Context) -> Any:
        subscription = _find(request.subscription, self._subscriptions, context)
        if self.faults.refuse_acks:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "acknowledgements are refused")
        subscription.acknowledge(request.ack_ids)
        return Empty()

    def _modify_ack_deadline(self, request: Any, context: Context) -> Any:
        subscription = _find(request.subscription, self._subscriptions, context)
        for ack_id in request.ack_ids:
            subscription.extend(ack_id, request.ack_deadline_seconds, self.faults)
        return Empty()


def _find(name: str, known: Mapping[str, Any], context: Context) -> Any:
    if name not in known:
        context.abort(grpc.StatusCode.NOT_FOUND, f"{name} does not exist")
    return known[name]


def _check_new(name: str, known: Mapping[str, Any], context: Context) -> None:
    if name in known:
        context.abort(grpc.StatusCode.ALREADY_EXISTS, f"{name} exists already")


def _bytes(message: Any) -> bytes:
    return bytes(message.SerializeToString())
