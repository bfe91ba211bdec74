"""Files in object stores, through pyarrow: Cloud Storage (``gs://``), S3 (``s3://``), Azure (``abfss://``).

An object appears whole when its upload has ended, and replaces one of the same name. A folder is a prefix of
objects' names, up to a slash: it is never created.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple, cast

import pyarrow as pa

from ldpbeam.temporary import temporary_root

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem

#: How each kind of URL begins, and how to have an account there.
_ACCOUNTS = {
    "gs": "gcloud auth application-default login gives an account, as does GOOGLE_APPLICATION_CREDENTIALS",
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY give an account, as does `aws configure`",
    "abfss": "az login gives an account, as do AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_CLIENT_SECRET",
}
#: What the stores answer to strangers, and to those who may not.
_REFUSED = re.compile(
    "ACCESS_DENIED|PERMISSION_DENIED|UNAUTHENTICATED|OAuth2|Authenticat|Authoriz|INVALID_ACCESS_KEY|SIGNATURE|40[13]"
)
#: For how long Cloud Storage is asked again if it does not answer.
_PATIENCE = timedelta(seconds=10)
#: A read of fewer bytes asks the store for this many.
_READ_BYTES = 2**20
#: An upload of more bytes waits in a file, and not in memory.
_IN_MEMORY = 2**24
_AT_ONCE = 16


class Entry(NamedTuple):
    """A file: its path, its length in bytes, and when it was written, in seconds since 1970."""

    path: str
    size: int
    modified: float


def object_at(url: str) -> Entry | None:
    """The object with this name, or the folder, whose size is 0; None if there is neither.

    Raises:
        OSError: if the store does not answer, or refuses; or if the URL is of no store that is known.
    """
    from pyarrow.fs import FileType

    with _reaching(url) as (store, path):
        info = store.get_file_info(path)
    return None if info.type == FileType.NotFound else _found(url, info)


def objects_below(folder: str, *, deep: bool) -> list[Entry]:
    """The objects in a folder.

    Args:
        folder: a URL that ends with a slash, at least of a bucket.
        deep: whether those in its own folders are among them.

    Raises:
        OSError: as :func:`object_at`.
    """
    from pyarrow.fs import FileSelector

    with _reaching(folder) as (store, path):
        below = store.get_file_info(FileSelector(path, recursive=deep, allow_not_found=True))
        return [_found(folder + info.path[len(path) + 1 :], info) for info in below if info.is_file]


def opened(url: str) -> IO[bytes]:
    """An object, to be read from anywhere in it.

    Raises:
        FileNotFoundError: if there is none.
        IsADirectoryError: if it is a folder.
        OSError: as :func:`object_at`.
    """
    try:
        return cast("IO[bytes]", io.BufferedReader(_Object(url), _READ_BYTES))
    except FileNotFoundError:
        if object_at(url):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), url) from None
        raise


@contextlib.contextmanager
def uploading(url: str) -> Iterator[IO[bytes]]:
    """A stream whose bytes become the object at the end, if there was no error.

    Raises:
        OSError: as :func:`object_at`.
    """
    # Closing a stream of pyarrow ends the upload, so that an error would leave half an object.
    with tempfile.SpooledTemporaryFile(_IN_MEMORY, dir=str(temporary_root())) as stream:
        yield cast("IO[bytes]", stream)
        stream.seek(0)
        with _reaching(url) as (store, path):
            sent = store.open_output_stream(path)
            shutil.copyfileobj(stream, sent, _IN_MEMORY)
            sent.close()


def rename(source: str, target: str) -> None:
    """Copy an object to another name in its store, and delete the first.

    Raises:
        OSError: as :func:`object_at`.
    """
    with _reaching(source) as (store, path):
        store.copy_file(path, _location(target)[1])
        store.delete_file(path)


def delete(urls: list[str]) -> None:
    """Delete those of the objects that exist.

    Raises:
        OSError: as :func:`object_at`.
    """
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(_delete, urls))


def _delete(url: str) -> None:
    with contextlib.suppress(FileNotFoundError), _reaching(url) as (store, path):
        store.delete_file(path)


class _Object(io.RawIOBase):
    """An object as a raw file. Its place is kept here: pyarrow asks the store for each ``seek``."""

    def __init__(self, url: str) -> None:
        self._url = url
        with _reaching(url) as (store, path):
            self._file = store.open_input_file(path)
            self._size: int = self._file.size()
        self._at = self._reached = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if self._at >= self._size:
            return 0
        with _reaching(self._url):
            if self._at != self._reached:
                self._file.seek(self._at)
            count: int = self._file.readinto(buffer)
        self._at = self._reached = self._at + count
        return count

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def _found(url: str, info: FileInfo) -> Entry:
    return Entry(url, info.size or 0, (info.mtime_ns or 0) / 1e9)


def _location(url: str) -> tuple[FileSystem, str]:
    """(the store that a URL names, the path there, which begins with its bucket)."""
    scheme, _, path = url.partition("://")
    path = path.rstrip("/")
    bucket, slash, rest = path.partition("/")
    if scheme not in _ACCOUNTS:
        raise ValueError("a file is on this machine, or its name begins with gs://, s3:// or abfss://")
    if not bucket or re.search("[*?[]", bucket):
        raise ValueError(
            f"name the bucket, as in {scheme}://{'CONTAINER@ACCOUNT' if scheme == 'abfss' else 'BUCKET'}/FILE"
        )
    if scheme == "gs":
        return _cloud_storage(os.environ.get("STORAGE_EMULATOR_HOST")), path
    if scheme == "s3":
        server = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        return _s3(bucket, server), path
    container, _, host = bucket.partition("@")
    return _azure(host.partition(".")[0], container), container + slash + rest


@functools.cache
def _cloud_storage(server: str | None) -> FileSystem:
    from pyarrow.fs import GcsFileSystem

    if server is not None:
        scheme, _, host = server.rpartition("://")
        return GcsFileSystem(
            anonymous=True, scheme=scheme or "http", endpoint_override=host, retry_time_limit=_PATIENCE
        )
    return GcsFileSystem(anonymous=not _has_google_account(), retry_time_limit=_PATIENCE)


def _has_google_account() -> bool:
    """Whether there is an account of Google's; pyarrow would look for one until its patience ends."""
    if "GOOGLE_APPLICATION_CREDENTIALS" in os.environ:
        return True
    if Path("~/.config/gcloud/application_default_credentials.json").expanduser().is_file():
        return True
    try:
        # Machines of Google's know it, and have an account.
        socket.getaddrinfo(os.environ.get("GCE_METADATA_HOST", "metadata.google.internal"), 80)
    except OSError:
        return False
    return True


@functools.cache
def _s3(bucket: str, server: str | None) -> FileSystem:
    from pyarrow.fs import S3FileSystem, resolve_s3_region

    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if server is None and region is None:
        region = resolve_s3_region(bucket)
    return S3FileSystem(region=region, endpoint_override=server)


@functools.cache
def _azure(account: str, container: str) -> FileSystem:
    from pyarrow.fs import AzureFileSystem

    system = AzureFileSystem(account_name=account)
    # Without credentials this fails; to open a file would abort the process.
    system.get_file_info(f"{container}/none")
    return system


@contextlib.contextmanager
def _reaching(url: str) -> Iterator[tuple[FileSystem, str]]:
    """Yield the :func:`_location` of a URL.

    What pyarrow says of the store becomes one sentence that names the URL, as of a file of this machine.
    """
    try:
        yield _location(url)
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), url) from None
    except (OSError, ValueError, pa.ArrowException) as error:
        said = _said(str(error))
        account = _ACCOUNTS.get(url.partition("://")[0])
        hint = f"; {account}" if account and _REFUSED.search(str(error)) else ""
        raise OSError(errno.EIO, f"{said}{hint}", url) from None


def _said(text: str) -> str:
    """What a store said, without the calls through which pyarrow asked it."""
    for call in (
        r".*?google::cloud::Status\((?:.*?with a last message of )?",
        r" error_info=.*",
        r".*?(?=AWS Error )",
        r".*(?:CURL error \[\d+\]=|curlCode: \d+, )",
        r".*Exception\w*: ",
    ):
        text = re.sub(call, "", text, flags=re.DOTALL)
    return re.split(r"\n|\. ", text.strip())[0].rstrip(".")[:300]
