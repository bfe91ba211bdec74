"""Files in object stores are found, read and written as those of a disk, and their errors are sentences."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from support.object_store import BUCKET, MISSING, PRIVATE, ObjectStore

from ldpbeam.command_line.checks import check_reachable
from ldpbeam.errors import UserError
from ldpbeam.transforms import object_stores
from ldpbeam.transforms.patterns import matching
from ldpbeam.transforms.storage import (
    delete,
    exists,
    literal,
    make_folder,
    open_raw,
    rename,
    replacing,
    write_bytes,
)

NAMES = ["a/1.txt", "a/b/2.txt", "a/[x] y?#%20ü.txt", "a/.hidden/3.txt", "a/.4.txt", "c.txt", "d*/5.txt"]
PATTERNS = [
    *("*", "**", "a/*", "a/", "a/**", "*/*", "*/*.txt", "**.txt", "a/b/2.t?t", "a/[!c]/*.txt", "a/.*/*"),
    *("c.txt", "a", "none", "none/*", "a/[[]x] y[?]#%20ü.txt", "d[*]/*", "d*/*", "[a-c]/1.txt"),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with ObjectStore(tmp_path_factory.mktemp("store")) as store:
        yield store
        assert not store.unknown


@pytest.fixture(params=["gs", "s3"])
def bucket(request: pytest.FixtureRequest, store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty bucket on Cloud Storage, and on S3."""
    store.reach(monkeypatch.setenv)
    store.objects.clear()
    return f"{request.param}://{BUCKET}"


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_matches_the_same_files_as_on_a_disk(pattern: str, bucket: str, tmp_path: Path) -> None:
    for name in NAMES:
        for place in (str(tmp_path), bucket):
            write_bytes(f"{place}/{name}", name.encode())
    here = [
        (entry.path.removeprefix(f"{tmp_path}/"), entry.size) for entry in matching(f"{tmp_path}/{pattern}")
    ]
    there = [(entry.path.removeprefix(f"{bucket}/"), entry.size) for entry in matching(f"{bucket}/{pattern}")]
    if pattern in ("a", "none"):
        # A name without wildcards need not be of a file, nor exist: who opens it says so.
        assert [name for name, _ in there] == ["a"][: pattern == "a"]
        return
    assert here == there
    assert [name for name, _ in there] == ([] if pattern == "none/*" else [name for name, _ in here])


def test_an_object_is_read_from_anywhere_in_it(bucket: str) -> None:
    data = bytes(range(256)) * 20_000
    write_bytes(f"{bucket}/large", data)
    write_bytes(f"{bucket}/empty", b"")
    with open_raw(f"{bucket}/large") as stream:
        assert stream.seek(0, 2) == len(data)
        assert stream.read() == b""
        assert (stream.seek(-10, 2), stream.read(100)) == (len(data) - 10, data[-10:])
        assert (stream.seek(7), stream.read(3), stream.tell()) == (7, data[7:10], 10)
        assert stream.read() == data[10:]
    with open_raw(f"{bucket}/empty") as stream:
        assert stream.read() == b""


def test_an_object_appears_whole_or_is_as_it_was(bucket: str) -> None:
    write_bytes(f"{bucket}/out/x", b"before")
    with pytest.raises(KeyError), replacing(f"{bucket}/out/x") as stream:
        stream.write(b"half")
        raise KeyError
    assert open_raw(f"{bucket}/out/x").read() == b"before"
    assert [entry.path for entry in matching(f"{bucket}/**")] == [f"{bucket}/out/x"]


def test_objects_are_renamed_and_deleted_and_need_no_folder(bucket: str, store: ObjectStore) -> None:
    make_folder(f"{bucket}/out")
    assert not store.objects
    for name in ("out/[1]", "out/2", "old"):
        write_bytes(f"{bucket}/{name}", name.encode())
    assert exists(f"{bucket}/out")
    assert exists(f"{bucket}/out/2")
    assert not exists(f"{bucket}/ou")
    rename(f"{bucket}/out/2", f"{bucket}/old")
    delete([f"{bucket}/out/[1]", f"{bucket}/gone"])
    assert {name: data for name, data in store.objects.items() if data} == {"old": b"out/2"}
    assert [entry.path for entry in matching(literal(f"{bucket}/old"))] == [f"{bucket}/old"]


def test_what_is_not_there_and_what_is_a_folder_are_errors_as_of_a_disk(bucket: str) -> None:
    write_bytes(f"{bucket}/folder/x", b"")
    with pytest.raises(IsADirectoryError, match=f"Is a directory: '{bucket}/folder'"):
        open_raw(f"{bucket}/folder")
    for url in (f"{bucket}/none", bucket.replace(BUCKET, MISSING) + "/x"):
        with pytest.raises(FileNotFoundError, match=f"No such file or directory: '{url}'"):
            open_raw(url)


@pytest.mark.parametrize(("scheme", "said"), [("gs", "gcloud auth"), ("s3", "AWS_ACCESS_KEY_ID")])
def test_who_may_not_is_told_how_to_have_an_account(
    scheme: str, said: str, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.reach(monkeypatch.setenv)
    with pytest.raises(UserError, match=rf"^--output {scheme}://{PRIVATE}/x: .*; {said}") as raised:
        check_reachable("--output", f"{scheme}://{PRIVATE}/x")
    assert "\n" not in str(raised.value)
    assert "Status(" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("hdfs://h/x", "a file is on this machine, or its name begins with gs://, s3:// or abfss://"),
        ("file:///x", "a file is on this machine, or its name begins with gs://, s3:// or abfss://"),
        ("gs://", "name the bucket, as in gs://BUCKET/FILE"),
        ("s3://b*/x", "name the bucket, as in s3://BUCKET/FILE"),
        ("abfss:///x", "name the bucket, as in abfss://CONTAINER@ACCOUNT/FILE"),
        ("gs://b//x", "Empty path component in path b//x"),
    ],
)
def test_a_url_of_nothing_that_is_known_is_refused_at_once(url: str, said: str) -> None:
    for use in (exists, open_raw, lambda url: write_bytes(url, b"")):
        with pytest.raises(OSError) as raised:
            use(url)
        assert (raised.value.strerror, raised.value.filename) == (said, url)


@pytest.mark.parametrize("scheme", ["gs", "s3"])
def test_a_store_that_does_not_answer_is_one_sentence(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_stores, "_PATIENCE", timedelta(seconds=1))
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://localhost:1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://localhost:1")
    with pytest.raises(UserError, match=rf"^--input {scheme}://b/x: Could not connect to server"):
        check_reachable("--input", f"{scheme}://b/x")


def test_without_an_account_cloud_storage_is_asked_as_by_a_stranger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object) -> None:
        raise socket.gaierror("no machine of Google's")

    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert not object_stores._has_google_account()
    kept = tmp_path / ".config/gcloud/application_default_credentials.json"
    kept.parent.mkdir(parents=True)
    kept.write_text("{}")
    assert object_stores._has_google_account()
