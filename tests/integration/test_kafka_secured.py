"""A broker that wants TLS, a password and rights: a file of settings has them, and nothing shows them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from kafka_messages import allow, consumed, new_topic, produce
from stream_messages import MINUTE, WEEK_AGO, evenly, in_batches, reports_of, rides
from stream_runs import statistics_of, streaming

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
pytestmark = pytest.mark.slow

STUDY = rides("size: 10m, allowed_lateness: 10m")
PASSWORD, WRONG = "right-0f3a9c", "wrong-7b41de"


@pytest.fixture
def secured(own_kafka: Any, tmp_path: Path) -> tuple[Any, Path]:
    """A broker, and the settings of a user who has no right yet, with the password in KAFKA_PASSWORD."""
    store, certificate = tmp_path / "key.p12", tmp_path / "certificate.pem"
    key = ["-keystore", store, "-storepass", PASSWORD, "-alias", "broker"]
    for command in (
        ["-genkeypair", *key, "-keyalg", "RSA", "-dname", "CN=broker", "-ext", "SAN=dns:localhost"],
        ["-exportcert", *key, "-rfc", "-file", certificate],
    ):
        subprocess.run(["keytool", *map(str, command)], check=True, capture_output=True)
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    broker = own_kafka(
        "SECURED",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_SSL",
        ssl_keystore_type="PKCS12",
        ssl_keystore_location=str(store),
        ssl_keystore_password=PASSWORD,
        ssl_key_password=PASSWORD,
        sasl_enabled_mechanisms="PLAIN",
        listener_name_secured_plain_sasl_jaas_config=f'{login} user_reader="{PASSWORD}";',
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        super_users="User:ANONYMOUS",
    )
    config = tmp_path / "kafka.properties"
    config.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=reader\n"
        f"sasl.password=${{KAFKA_PASSWORD}}\nssl.ca.location={certificate}\n"
    )
    return broker, config


def test_a_secured_broker_is_read_and_written_with_the_password_and_refuses_another(
    secured: tuple[Any, Path], batch_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, config = secured
    topic, published = new_topic(broker.address), new_topic(broker.address)
    allow(broker.address, "reader", topic, "READ")
    allow(broker.address, "reader", published, "WRITE")
    sent = reports_of(STUDY, "people", evenly(WEEK_AGO, 10 * MINUTE, 200), seed=1)
    produce(broker.address, topic, in_batches(sent))
    # Without --group a user needs no right to any group.
    options = ["--kafka", broker.second, "--topic", topic, "--kafka-config", config]
    options += ["--publish-to", f"kafka://{broker.second}/{published}", "--stop-when-idle", "3s"]
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    with streaming(tmp_path / "right", STUDY, *options) as stream:
        assert stream.wait() == 0, stream.said
        left = stream.left
    assert left.statistics == statistics_of(batch_of(sent).snapshots)
    assert len(consumed(broker.address, published)) == len(left.records) == 2
    monkeypatch.setenv("KAFKA_PASSWORD", WRONG)
    with streaming(tmp_path / "wrong", STUDY, *options) as refused:
        assert refused.wait() == 2
    # One sentence, on a line of its own.
    assert re.fullmatch(
        rf"ldpbeam: --\S+ {broker.second}: the broker refuses the user name, .*\n", refused.said
    )
    assert not refused.output.exists()
    written = [path.read_bytes() for run in ("right", "wrong") for path in files_below(tmp_path / run)]
    assert not any(secret.encode() in text for text in written for secret in (PASSWORD, WRONG))


def files_below(folder: Path) -> list[Path]:
    """All that a run has written, its log among it."""
    return [path for path in folder.rglob("*") if path.is_file()]
