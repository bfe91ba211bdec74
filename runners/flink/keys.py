"""The key of a cluster on this machine: Flink serves nobody who has not got it.

Flink's REST API runs any jar that it is sent, and every account of a machine reaches its loopback. So each
cluster has a key and a certificate of its own, in files that only its account can read; the REST API, the
processes among themselves and the blob server ask everybody who connects for it (mutual TLS).
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
#: All that RSA keys can do with forward secrecy, in every Java that Flink runs on.
_ALGORITHMS = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"


@dataclass(frozen=True)
class Keys:
    """A key and its certificate, in files of a folder.

    Attributes:
        folder: only its owner can enter it.
    """

    folder: Path

    @property
    def pem(self) -> Path:
        """Key and certificate, as Python and curl read them."""
        return self.folder / "key.pem"

    @property
    def store(self) -> Path:
        """The same, as Java and browsers read them."""
        return self.folder / "key.p12"

    @property
    def password(self) -> str:
        """The password of ``store``; Java wants one."""
        return (self.folder / "password").read_text()

    def settings(self) -> dict[str, object]:
        """What Flink's configuration says of the key."""
        return {
            "security.ssl.internal.enabled": True,
            "security.ssl.rest.enabled": True,
            "security.ssl.rest.authentication-enabled": True,
            "security.ssl.protocol": "TLSv1.2",
            "security.ssl.algorithms": _ALGORITHMS,
            # Everybody has the same key, and trusts no other.
            "security.ssl.keystore": str(self.store),
            "security.ssl.truststore": str(self.store),
            "security.ssl.keystore-password": self.password,
            "security.ssl.key-password": self.password,
            "security.ssl.truststore-password": self.password,
        }

    def context(self) -> ssl.SSLContext:
        """For connections to the cluster: they show the key, and trust no other."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.pem)
        context.load_cert_chain(self.pem)
        return context


def make(folder: Path) -> Keys:
    """Make a new key in a folder, which is made too and becomes its owner's alone."""
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
        # A clock may have been set back since.
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
    """Write down, for the commands of this account, whose cluster listens on a port."""
    place = _announced(port)
    place.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
    place.unlink(missing_ok=True)
    place.symlink_to(folder, target_is_directory=True)


def withdraw(folder: Path) -> None:
    """Forget the ports that were announced for a cluster."""
    for place in _announced(0).parent.glob("*"):
        with contextlib.suppress(OSError):
            if place.readlink() == folder:
                place.unlink()


def cluster_at(address: str) -> Path | None:
    """The folder of the cluster of this account that listens at an address.

    Args:
        address: ``host:port``, or a URL.

    Returns:
        None if there is none, or its processes have ended.
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
    """The key of the cluster of this account that listens at an address; None if there is none."""
    folder = cluster_at(address)
    return None if folder is None else Keys(folder / KEYS)


#: In a cluster's folder.
KEYS = "keys"
