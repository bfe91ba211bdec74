"""Flink and Beam's runner for it, downloaded once from the package registries into the cache.

Flink itself is in a Python package. Beam's runner and its dependencies are in Maven's repository. Beam's own
way is to send a job server of 160 MB, which contains everything, to the cluster with every job. Here a jar of
two kilobytes names the other jars as its class path, and the cluster has these next to its own.

The first entry of every class path is a small jar, compiled on this machine from the folder ``java``. Beam's
servers listen on every interface; those in this jar listen on Unix sockets of this account.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from ldpbeam.runners import maven
from ldpbeam.runners.cache import CACHE, cache, make

FLINK = "1.19.3"
FLINK_MINOR = "1.19"
#: The release of Beam's runner; Python workers of later releases can use it.
BEAM = "2.70.0"
JOB_SERVICE = "2.65.0"
POM = Path(__file__).with_name("pom.xml")
JAVA = Path(__file__).with_name("java")

#: Beam's job server sends all jars of its class path, 340 MB, to the cluster with every job. It leaves out
#: jars in a folder with this path, because it treats them as tools of its own build.
_NOT_SENT = Path("gradle", "wrapper")
#: Only the job server needs these jars. They contain older copies of classes of which a cluster has newer
#: ones; with both, results would not deserialise.
_JOB_SERVER_ONLY = ("harness", "expansion-service", "transform-service")
_ADD_OPENS = "java.base/java.lang java.base/java.util java.base/java.nio java.base/java.time"
#: The service providers that gRPC loads from the jar that is compiled here.
_SERVICES = {
    "org.apache.beam.vendor.grpc.v1p69p0.io.grpc.ManagedChannelProvider": "ldpbeam.UnixChannelProvider",
}
#: The oldest Java that Flink and Beam run on.
_OLDEST_JAVA = 11
#: The most bytes of a line of a manifest, without its end.
_LINE = 70


class FlinkError(RuntimeError):
    """Something that Flink needs is missing or fails; the message says what, and what to do."""


@dataclass(frozen=True)
class Parts:
    """The paths of all parts.

    Attributes:
        folder: the folder that contains them.
    """

    folder: Path

    @property
    def flink(self) -> Path:
        """The folder of Flink's jars."""
        return self.folder / _NOT_SENT / "flink" / "pyflink" / "lib"

    @property
    def beam(self) -> Path:
        """The folder of the jars that task managers need besides Flink's; the job server's are below it."""
        return self.folder / _NOT_SENT / "beam"

    @property
    def closed(self) -> Path:
        """The jar of the classes that are compiled here; each version of their sources has its own jar."""
        return self.folder / _NOT_SENT / "closed" / f"{_sources_digest()}.jar"

    @property
    def job_server(self) -> Path:
        """The job server: a jar that names all others as its class path, and is written after them."""
        return self.folder / f"job-server-{_sources_digest()}.jar"

    @property
    def class_path(self) -> str:
        """The class path of a cluster's processes."""
        return f"{self.closed}:{self.flink}/*:{self.beam}/*"


def _sources_digest() -> str:
    digest = hashlib.sha256()
    for source in sorted(JAVA.glob("*.java")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:12]


def _place() -> Parts:
    return Parts(cache() / "flink" / f"{FLINK}-{BEAM}")


def cached() -> Parts | None:
    """The parts; None if they have not been downloaded completely."""
    parts = _place()
    return parts if parts.job_server.is_file() else None


def fetch(say: Callable[[str], None] = print) -> Parts:
    """The parts, which are downloaded if they are not in the cache.

    This function may be interrupted at any time, and several processes may call it at once.

    Args:
        say: called with one line before each download.

    Raises:
        FlinkError: if Maven, Java's compiler or pip is missing or fails, or the cache cannot be written.
    """
    earlier = cached()
    if earlier is not None:
        return earlier
    parts = _place()
    try:
        parts.beam.parent.mkdir(parents=True, exist_ok=True)
        if not parts.flink.is_dir():
            say(f"fetching Flink {FLINK} (230 MB, once) into {parts.folder}")
            make(parts.beam.with_name("flink"), _fetch_flink)
        if not parts.beam.is_dir():
            say(f"fetching Beam's Flink runner {BEAM} (105 MB, once) into {parts.folder}")
            make(parts.beam, _fetch_beam)
        # The compiled jar first, then Flink's, as on the cluster: some jars have classes of the same name.
        flink, beam = sorted(parts.flink.glob("*.jar")), sorted(parts.beam.rglob("*.jar"))
        if not parts.closed.is_file():
            _compile(parts.closed, [*flink, *beam])
        jars = [parts.closed, *flink, *beam]
        write_job_server(parts.job_server, [jar.relative_to(parts.folder) for jar in jars])
    except OSError as error:
        raise FlinkError(f"{parts.folder}: {error.strerror or error}; {CACHE} names another cache") from None
    return parts


def _fetch_flink(folder: Path) -> None:
    package = f"apache-flink-libraries=={FLINK}"
    # The package's dependencies are not needed, only its jars.
    options = ["--no-deps", "--no-compile", "--disable-pip-version-check", "--quiet"]
    _run(
        [sys.executable, "-m", "pip", "install", *options, "--target", str(folder), package],
        package,
        "fetched",
    )


def _fetch_beam(folder: Path) -> None:
    try:
        command = maven.copying(
            POM, folder, f"-Dflink.minor={FLINK_MINOR}", f"-Dbeam.version={BEAM}",
            f"-Dbeam.job-service.version={JOB_SERVICE}", "-DexcludeGroupIds=org.apache.flink",
        )  # fmt: skip
    except FileNotFoundError as error:
        raise FlinkError(str(error)) from None
    _run(command, "Beam's Flink runner", "fetched")
    apart = folder / "job-server-only"
    apart.mkdir()
    for jar in folder.glob("*.jar"):
        if any(word in jar.name for word in _JOB_SERVER_ONLY):
            jar.rename(apart / jar.name)


def _compile(path: Path, class_path: Iterable[Path]) -> None:
    compiler = shutil.which("javac")
    if compiler is None:
        raise FlinkError(
            f"there is no javac on PATH: install a JDK, {_OLDEST_JAVA} or 17, as a JRE alone has no compiler "
            "(on Debian: apt-get install default-jdk-headless)"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent) as temporary:
        classes, new = Path(temporary, "classes"), Path(temporary, path.name)
        command = [
            compiler, "--release", str(_OLDEST_JAVA), "-nowarn", "-proc:none", "-d", str(classes),
            "-cp", ":".join(map(str, class_path)), *map(str, sorted(JAVA.glob("*.java"))),
        ]  # fmt: skip
        _run(command, "the servers that listen on Unix sockets", "compiled")
        with zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as jar:
            for compiled in sorted(classes.rglob("*.class")):
                jar.write(compiled, compiled.relative_to(classes))
            for service, provider in _SERVICES.items():
                jar.writestr(f"META-INF/services/{service}", f"{provider}\n")
        new.replace(path)


def _run(command: list[str], what: str, made: str) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
        errors = [line for line in lines if "error" in line.lower()] or [line for line in lines if line]
        said = (errors or ["nothing"])[0]
        raise FlinkError(f"{what} could not be {made}; {Path(command[0]).name} said: {said}")


def write_job_server(path: Path, jars: Iterable[Path]) -> None:
    """Write a jar that starts the job server with other jars as its class path.

    Args:
        path: the path of the jar, which appears only when it is complete.
        jars: the paths of the other jars, relative to the jar's folder.
    """
    entries = {
        "Manifest-Version": "1.0",
        "Main-Class": "ldpbeam.JobServer",
        "Add-Opens": _ADD_OPENS,
        "Class-Path": " ".join(jar.as_posix() for jar in jars),
    }
    with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent) as temporary:
        new = Path(temporary) / path.name
        with zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as jar:
            jar.writestr("META-INF/MANIFEST.MF", manifest(entries))
        new.replace(path)


def manifest(entries: dict[str, str]) -> bytes:
    """The bytes of a jar's manifest; a long line continues on the next line, after a space."""
    lines = []
    for name, value in entries.items():
        rest = f"{name}: {value}".encode()
        while rest:
            lines.append(rest[:_LINE])
            rest = b" " + rest[_LINE:] if len(rest) > _LINE else b""
    return b"".join(line + b"\r\n" for line in lines)
