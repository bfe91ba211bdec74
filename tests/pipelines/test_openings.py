"""What a run opens: where it goes on, what it says is gone, and what it leaves for the next process."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.errors import UserError
from ldpbeam.inputs.kafka import KafkaRequest, Reached
from ldpbeam.pipelines.sources import folder, kafka, pubsub
from ldpbeam.pipelines.sources.opening import Run
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.offsets import Checksum
from ldpbeam.transforms.sources.kafka_client import KafkaTopic
from ldpbeam.windows import FAR

ASKED = KafkaRequest(KafkaTopic("localhost:1", "reports"), group="watched")
TOPIC = "projects/ldp-test/topics/reports"

BEFORE = "20261129T000000Z-01234567"


def run(output: Path, position: Any = None, earlier: Any = ()) -> Run:
    return Run(Columns(), str(output), "run", position, earlier)


class Brokers:
    """Brokers that say something of a topic, and what they were asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[Any] = []
        self.said = Reached({}, {}, {}, None, "id")
        self.warnings: list[str] = []
        monkeypatch.setattr(kafka, "reach", self.reach)
        monkeypatch.setattr(kafka, "warn", self.warnings.append)

    def reach(self, *asked: Any) -> Reached:
        self.asked.append(asked)
        return self.said


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    return Brokers(monkeypatch)


def test_a_first_run_of_a_topic_begins_where_it_is_asked_to(brokers: Brokers, tmp_path: Path) -> None:
    brokers.said = Reached({0: 7, 1: 3}, {}, {0: 9, 1: 3}, None, "id")
    with kafka.open_topic(ASKED, run(tmp_path)) as opened:
        assert opened.position == {"offsets": [[0, 7], [1, 3]], "checksums": []}
        assert (opened.feed.name, opened.feed.about["topic_identity"]) == ("reports at localhost:1", "id")
        assert opened.feed.group == "watched"
    assert brokers.asked == [(ASKED, {}, {})]
    assert (opened.removed, brokers.warnings) == ({}, [])


def test_a_run_goes_on_at_its_own_position_and_another_one_where_all_have_ended(
    brokers: Brokers, tmp_path: Path
) -> None:
    own = {"offsets": [[0, 5]], "checksums": [[0, [[4, 40]]]]}
    other = {"offsets": [[0, 9], [1, 2]], "checksums": [[0, [[8, 80]]], [1, [[1, 10]]]]}
    brokers.said = Reached({0: 5}, {}, {0: 9}, None, "id")
    with kafka.open_topic(ASKED, run(tmp_path, own, [other])) as opened:
        assert opened.position == own
    brokers.said = Reached({0: 9, 1: 2}, {}, {0: 9, 1: 2}, None, "id")
    with kafka.open_topic(ASKED, run(tmp_path, None, [own, other])) as opened:
        assert opened.position == {
            "offsets": [[0, 9], [1, 2]],
            "checksums": [[0, [[4, 40], [8, 80]]], [1, [[1, 10]]]],
        }
    assert [asked[1:] for asked in brokers.asked] == [
        ({0: 5}, {0: [Checksum(4, 40)]}),
        ({0: 9, 1: 2}, {0: [Checksum(4, 40), Checksum(8, 80)], 1: [Checksum(1, 10)]}),
    ]


def test_what_retention_has_removed_is_said(brokers: Brokers, tmp_path: Path) -> None:
    brokers.said = Reached({0: 300}, {0: (100, 300)}, {0: 500}, None, "id")
    position = {"offsets": [[0, 100]], "checksums": [[0, [[99, 1]]]]}
    with kafka.open_topic(ASKED, run(tmp_path, position)) as opened:
        assert opened.position == {"offsets": [[0, 300]], "checksums": [[0, [[99, 1]]]]}
        assert opened.removed == {0: (100, 300)}
    (said,) = brokers.warnings
    assert said.startswith(
        "reports, partition 0: retention has removed the messages from offset 100 to 299, which"
    )


@pytest.mark.parametrize("seen", [True, False], ids=["by checksums", "by its end"])
def test_a_log_that_has_lost_its_end_goes_on_with_the_first_new_message(
    seen: bool, brokers: Brokers, tmp_path: Path
) -> None:
    (tmp_path / "runs" / "run").mkdir(parents=True)
    record = tmp_path / "runs" / "run" / "decoding.json"
    record.write_text(json.dumps([[0, 28, 29, 1]]))
    brokers.said = Reached(
        {0: 20, 1: 4}, {}, {0: 40 if seen else 20, 1: 4}, None, "id", {0: 20} if seen else {}
    )
    position = {"offsets": [[0, 30], [1, 4]], "checksums": [[0, [[19, 1], [29, 2]]], [1, [[3, 3]]]]}
    with kafka.open_topic(ASKED, run(tmp_path, position)) as opened:
        assert opened.position == {"offsets": [[0, 20], [1, 4]], "checksums": [[0, [[19, 1]]], [1, [[3, 3]]]]}
        assert opened.removed == {0: (20, FAR)}
    (said,) = brokers.warnings
    assert (
        "partition 0: the broker has lost 10 messages that were read, from offset 20 on, and perhaps" in said
    )
    # These offsets have other messages now.
    assert not record.exists()


def test_a_group_of_somebody_else_is_said(brokers: Brokers, tmp_path: Path) -> None:
    brokers.said = Reached({0: 0}, {}, {0: 0}, "watched", "id")
    with kafka.open_topic(ASKED, run(tmp_path)):
        (said,) = brokers.warnings
    assert said.startswith("--group watched: another consumer has committed offsets")


@pytest.mark.parametrize(
    ("about", "said"),
    [
        ({"topic": "others"}, "reads others, and offsets of one topic say nothing"),
        (
            {"topic": "reports", "topic_identity": "then"},
            "has read another topic of this name; it was recreated",
        ),
    ],
)
def test_another_topic_needs_another_folder(
    about: dict[str, str], said: str, brokers: Brokers, tmp_path: Path
) -> None:
    (tmp_path / "runs" / BEFORE).mkdir(parents=True)
    content = {"run": BEFORE, "reads": "others", **about}
    (tmp_path / "runs" / BEFORE / "run.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=said), kafka.open_topic(ASKED, run(tmp_path)):
        pass


def test_files_that_this_run_or_earlier_ones_have_read_are_left_out(tmp_path: Path) -> None:
    files = tmp_path / "in"
    files.mkdir()
    for name in "abc":
        (files / name).write_text("{}\n")
    read = [{"read": {str(files / name): 3}, "bad": [], "part": None} for name in "ab"]
    left = {}
    for position, earlier in ((None, ()), (read[0], ()), (None, read)):
        with folder.open_files((str(files / "*"),), run(tmp_path / "out", position, earlier)) as opened:
            reading = opened.feed.open_at(opened.position)
            left[len(earlier), position is None] = len(list(iter(reading.take, None)))
    assert left == {(0, True): 3, (0, False): 2, (2, True): 1}


def test_files_that_cannot_be_looked_for_are_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(UserError, match="--input nothing://x: "),
        folder.open_files(("nothing://x",), run(tmp_path)),
    ):
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    pubsub_v1 = pytest.importorskip("google.cloud.pubsub_v1", reason="google-cloud-pubsub is not installed")
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "integration")
    from pubsub_server import PubSubServer

    with PubSubServer() as server:
        monkeypatch.setenv("PUBSUB_EMULATOR_HOST", server.address)
        with contextlib.closing(pubsub_v1.PublisherClient().transport) as transport:
            from google.pubsub_v1 import PublisherClient

            PublisherClient(transport=transport).create_topic(name=TOPIC)
        yield server


def test_a_topic_keeps_the_subscription_of_a_run_until_the_run_has_ended(server: Any, tmp_path: Path) -> None:
    position = {"unconfirmed": ["17"]}
    with pubsub.open_topic(TOPIC, run(tmp_path)) as opened:
        (name,) = server._subscriptions
        assert server._subscriptions[name].config.expiration_policy.ttl.seconds == 7 * 86_400
        assert (opened.feed.name, opened.position, opened.server) == (
            name,
            {"unconfirmed": []},
            server.address,
        )
    # It was stopped, or killed after its first commit.
    with pytest.raises(ZeroDivisionError), pubsub.open_topic(TOPIC, run(tmp_path, position)) as opened:
        assert (opened.feed.name, opened.position) == (name, position)
        raise ZeroDivisionError
    assert set(server._subscriptions) == {name}
    with pubsub.open_topic(TOPIC, run(tmp_path, position)) as opened:
        opened.finish()
    assert not server._subscriptions


def test_what_earlier_runs_took_of_a_subscription_is_not_taken_again(server: Any, tmp_path: Path) -> None:
    with pubsub.open_topic(TOPIC, run(tmp_path)) as opened:
        name = opened.feed.name
    earlier = [{"unconfirmed": ["3", "1"]}, {"unconfirmed": ["2"]}]
    with pubsub.open_subscription(name, run(tmp_path, {"unconfirmed": ["1", "4"]}, earlier)) as opened:
        assert opened.position == {"unconfirmed": ["1", "2", "3", "4"]}
        assert opened.feed.lease_seconds == pubsub.OWN_LEASE_SECONDS
