"""What the integration tests share: Pub/Sub servers and names on them, a Kafka broker, and Flink.

What is missing skips a test, with a sentence on how to get it; ``LDPBEAM_REQUIRE_INTEGRATION=1`` fails it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import pytest
from broker import VERSION, Broker
from flink import flink_cluster, flink_for_a_test
from ports import NoServerError
from stream_runs import run_batch

__all__ = ["flink_cluster", "flink_for_a_test"]

if TYPE_CHECKING:
    from pubsub_server import PubSubServer

PROJECT = "ldp-test"
REQUIRED = os.environ.get("LDPBEAM_REQUIRE_INTEGRATION") == "1"
EXAMPLES = Path(__file__).parents[2] / "examples" / "stream"
WITHOUT_LIBRARY = "google-cloud-pubsub is not installed: pip install 'ldpbeam[test]'"
USED = pytest.StashKey[dict[str, str]]()

if REQUIRED and importlib.util.find_spec("google.pubsub_v1") is None:
    raise ImportError(WITHOUT_LIBRARY)


class Names(NamedTuple):
    """Full names on a server."""

    topic: str
    subscription: str


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for what, used in config.stash.get(USED, {}).items():
        terminalreporter.write_line(f"{what} of the integration tests: {used}")


def _say(request: pytest.FixtureRequest, what: str, used: str) -> None:
    request.config.stash.setdefault(USED, {})[what] = used


def _missing(sentence: str) -> NoReturn:
    if REQUIRED:
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)


@pytest.fixture(scope="session")
def pubsub_servers() -> Any:
    """The module ``examples/stream/pubsub.py``, which starts servers."""
    return _example("pubsub")


def _example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"stream_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A real Kafka broker for all tests, on free ports of this machine."""
    if importlib.util.find_spec("confluent_kafka") is None:
        _missing("confluent-kafka is not installed: pip install 'ldpbeam[test]'")
    try:
        with Broker(tmp_path_factory.mktemp("kafka")) as broker:
            _say(request, "Kafka broker", f"Apache Kafka {VERSION}")
            yield broker
    except NoServerError as error:
        _missing(str(error))


@pytest.fixture
def own_kafka(tmp_path: Path) -> Iterator[Any]:
    """A broker of a test's own, to be ended or set up: a function of its second listener and its settings."""
    if importlib.util.find_spec("confluent_kafka") is None:
        _missing("confluent-kafka is not installed: pip install 'ldpbeam[test]'")
    with contextlib.ExitStack() as stack:

        def start(listener: str | None = None, **settings: str) -> Any:
            folder = tmp_path / "kafka"
            folder.mkdir()
            try:
                dotted = {name.replace("_", "."): value for name, value in settings.items()}
                return stack.enter_context(Broker(folder, dotted, listener))
            except NoServerError as error:
                _missing(str(error))

        yield start


@pytest.fixture(scope="session")
def pubsub(request: pytest.FixtureRequest, pubsub_servers: Any) -> Iterator[str]:
    """The address of the most real server there is; the test run says which one."""
    _check_library()
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(pubsub_servers.running_server())
        except NoServerError as error:
            pytest.fail(str(error), pytrace=False)
        _say(request, "Pub/Sub server", server.name)
        yield server.address


@pytest.fixture
def own_pubsub() -> Iterator[PubSubServer]:
    """The tests' own server, new for each test, for its counts."""
    _check_library()
    from pubsub_server import PubSubServer

    with PubSubServer() as server:
        yield server


@pytest.fixture
def topic_and_subscription(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Names]]:
    """Creates a topic and its subscription: (address, options of the subscription).

    It points ``PUBSUB_EMULATOR_HOST`` at that address, and deletes both at the end.
    """
    _check_library()
    from google.api_core.exceptions import GoogleAPICallError
    from google.cloud import pubsub_v1

    with contextlib.ExitStack() as stack:

        def create(address: str, **options: Any) -> Names:
            def delete() -> None:
                # The test may have deleted them, or left a server behind that does not answer.
                with contextlib.suppress(GoogleAPICallError):
                    subscriber.delete_subscription(subscription=key, retry=None, timeout=5)
                with contextlib.suppress(GoogleAPICallError):
                    publisher.delete_topic(topic=topic, retry=None, timeout=5)

            monkeypatch.setenv("PUBSUB_EMULATOR_HOST", address)
            publisher, subscriber = pubsub_v1.PublisherClient(), pubsub_v1.SubscriberClient()
            stack.enter_context(contextlib.closing(publisher.transport))
            stack.enter_context(contextlib.closing(subscriber.transport))
            end = uuid.uuid4().hex
            topic, key = f"projects/{PROJECT}/topics/t-{end}", f"projects/{PROJECT}/subscriptions/s-{end}"
            stack.callback(delete)
            publisher.create_topic(name=topic)
            subscriber.create_subscription(request={"name": key, "topic": topic, **options})
            return Names(topic, key)

        yield create


@pytest.fixture
def batch_of(
    request: pytest.FixtureRequest, run_estimate: Any, write_reports: Any, tmp_path: Path
) -> Callable[[Sequence[Any]], Any]:
    """The batch run of a module's ``STUDY`` over some reports."""
    numbers = itertools.count()

    def run(sent: Sequence[Any]) -> Any:
        folder = tmp_path / f"batch-{next(numbers)}"
        return run_batch(run_estimate, write_reports, folder, request.module.STUDY, sent)

    return run


def _check_library() -> None:
    if importlib.util.find_spec("google.pubsub_v1") is None:
        _missing(WITHOUT_LIBRARY)
