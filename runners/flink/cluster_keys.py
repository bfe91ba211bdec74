"""The key of a cluster on this machine: Flink serves only clients that have it.

Flink's REST API runs any jar that a client sends, and every account of a machine can connect to its loopback.
So each cluster has its own key and certificate, in files that only its account can read. The REST API, the
blob server and the cluster's processes require it of every client (mutual TLS).
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import os
import secrets
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import pkcs12

from ldpbeam.runners.cache import cache
from ldpbeam.runners.flink.processes import running

_NAME = "ldpbeam-flink"
_BITS = 2048
_LASTS = datetime.timedelta(days=3650)
#: The cipher suites for RSA keys with forward secrecy that every Java of Flink supports.
_ALGORITHMS = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"


@dataclass(frozen=True)
class Keys:
    """A key and its certificate, in files of a folder.

    Attributes:
        folder: the folder, which only its owner can enter.
    """

    folder: Path

    @property
    def pem(self) -> Path:
        """The file with the key and the certificate for Python and curl (PEM)."""
        return self.folder / "key.pem"

    @property
    def store(self) -> Path:
        """The file with the key and the certificate for Java and browsers (PKCS #12)."""
        return self.folder / "key.p12"

    @property
    def password(self) -> str:
        """The password of ``store``, which Java requires."""
        return (self.folder / "password").read_text()

    def settings(self) -> dict[str, object]:
        """The entries of Flink's configuration for the key."""
        return {
            "security.ssl.internal.enabled": True,
            "security.ssl.rest.enabled": True,
            "security.ssl.rest.authentication-enabled": True,
            "security.ssl.protocol": "TLSv1.2",
            "security.ssl.algorithms": _ALGORITHMS,
            # All processes and clients have the same key, and trust no other key.
            "security.ssl.keystore": str(self.store),
            "security.ssl.truststore": str(self.store),
            "security.ssl.keystore-password": self.password,
            "security.ssl.key-password": self.password,
            "security.ssl.truststore-password": self.password,
        }

    def context(self) -> ssl.SSLContext:
        """The context for connections to the cluster: it presents the key, and trusts no other key."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.pem)
        context.load_cert_chain(self.pem)
        return context


def make(folder: Path) -> Keys:
    """Make a new key in a folder, which is made if it is missing and which only its owner may then enter."""
    folder.mkdir(mode=0o700, exist_ok=True)
    folder.chmod(0o700)
    keys = Keys(folder)
    key = rsa.generate_private_key(public_exponent=65537, key_size=_BITS)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, _NAME)])
    here = [ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1")]
    hosts = [x509.DNSName("localhost"), *map(x509.IPAddress, here)]
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # The clock may be set back later.
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + _LASTS)
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .sign(key, hashes.SHA256())
    )
    password = secrets.token_hex(16)
    plain = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    pem = key.private_bytes(serialization.Encoding.PEM, form, plain)
    locked = serialization.BestAvailableEncryption(password.encode())
    _write(keys.pem, pem + certificate.public_bytes(serialization.Encoding.PEM))
    _write(keys.store, pkcs12.serialize_key_and_certificates(_NAME.encode(), key, certificate, None, locked))
    _write(folder / "password", password.encode())
    return keys


def _write(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


def _announced(port: int) -> Path:
    return cache() / "flink" / "clusters" / str(port)


def announce(port: int, folder: Path) -> None:
    """Record, for the commands of this account, the folder of the cluster that listens on a port."""
    file = _announced(port)
    file.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
    file.unlink(missing_ok=True)
    file.symlink_to(folder, target_is_directory=True)


def withdraw(folder: Path) -> None:
    """Delete the records of the ports of a folder's cluster."""
    for file in _announced(0).parent.glob("*"):
        with contextlib.suppress(OSError):
            if file.readlink() == folder:
                file.unlink()


def cluster_at(address: str) -> Path | None:
    """The folder of this account's cluster that listens at an address.

    Args:
        address: ``host:port``, or a URL.

    Returns:
        The folder; None if there is no such cluster, or its job manager has ended.
    """
    host, _, port = address.rpartition("://")[2].rstrip("/").rpartition(":")
    if host not in ("localhost", "127.0.0.1", "[::1]") or not port.isdecimal():
        return None
    try:
        folder = _announced(int(port)).readlink()
    except OSError:
        return None
    names = {process.name for process in running(folder)}
    return folder if "jobmanager" in names else None


def keys_at(address: str) -> Keys | None:
    """The key of this account's cluster that listens at an address; None if there is no such cluster."""
    folder = cluster_at(address)
    return None if folder is None else Keys(folder / KEYS)


#: The name of the folder of keys in a cluster's folder.
KEYS = "keys"
