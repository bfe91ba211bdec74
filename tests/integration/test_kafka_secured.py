"""A broker that wants TLS and a password: ldpbeam has both from its file of settings, and shows neither."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from kafka_messages import new_topic, produce
from stream_messages import MINUTE, WEEK_AGO, evenly, in_batches, reports_of, rides
from stream_runs import statistics_of, streaming
from test_kafka_bounded import consumed

from ldpbeam.runners.flink import keys

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
pytestmark = pytest.mark.slow

STUDY = rides("size: 10m, allowed_lateness: 10m")
PASSWORD, WRONG = "right-0f3a9c", "wrong-7b41de"


def test_a_secured_broker_is_read_and_written_with_the_password_and_refuses_another(
    own_kafka: Any, prism: str, batch_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = keys.make(tmp_path / "key")
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    broker = own_kafka(
        "SECURED",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_SSL",
        ssl_keystore_type="PKCS12",
        ssl_keystore_location=str(key.store),
        ssl_keystore_password=key.password,
        ssl_key_password=key.password,
        sasl_enabled_mechanisms="PLAIN",
        listener_name_secured_plain_sasl_jaas_config=f'{login} user_reader="{PASSWORD}";',
    )
    config = tmp_path / "kafka.properties"
    config.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=reader\n"
        f"sasl.password=${{KAFKA_PASSWORD}}\nssl.ca.location={key.pem}\n"
    )
    topic, published = new_topic(broker.address), new_topic(broker.address)
    sent = reports_of(STUDY, "people", evenly(WEEK_AGO, 10 * MINUTE, 200), seed=1)
    produce(broker.address, topic, in_batches(sent))
    options = ["--kafka", broker.second, "--topic", topic, "--kafka-config", config, "--group", topic]
    options += ["--publish-to", f"kafka://{broker.second}/{published}", "--stop-when-idle", "3s"]
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    with streaming(tmp_path / "right", STUDY, prism, *options) as stream:
        assert stream.wait() == 0, stream.said
        left = stream.left
    assert left.statistics == statistics_of(batch_of(sent).snapshots)
    assert len(consumed(broker.address, published)) == len(left.records) == 2
    monkeypatch.setenv("KAFKA_PASSWORD", WRONG)
    with streaming(tmp_path / "wrong", STUDY, prism, *options) as refused:
        assert refused.wait() == 2
    # One sentence, on a line of its own.
    assert re.fullmatch(rf"ldpbeam: --\S+ {broker.second}: .*Authentication failed.*\n", refused.said)
    assert not refused.output.exists()
    written = [path.read_bytes() for run in ("right", "wrong") for path in files_below(tmp_path / run)]
    assert not any(secret.encode() in text for text in written for secret in (PASSWORD, WRONG))


def files_below(folder: Path) -> list[Path]:
    """All that a run has written, its log among it."""
    return [path for path in folder.rglob("*") if path.is_file()]
