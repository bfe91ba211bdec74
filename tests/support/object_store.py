"""Cloud Storage and S3 as far as clients ask them here: a bucket whose objects are files of a folder.

``with ObjectStore(folder) as store`` listens on ``store.url``, the value of ``STORAGE_EMULATOR_HOST`` and
``AWS_ENDPOINT_URL``. It is a process of its own: pyarrow holds Python's lock while it waits for some answers.
"""

from __future__ import annotations

import base64
import hashlib
import http.server
import itertools
import json
import re
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

BUCKET = "bucket"
#: Buckets that nobody may use, and that is not here.
PRIVATE, MISSING = "private", "missing"
NOW = "2026-11-21T00:00:00.000Z"
#: The file beside the objects with what was asked and is not known here.
UNKNOWN = "unknown"


class Answer(NamedTuple):
    """What is sent back."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {}


def as_json(found: Any, status: int = 200) -> Answer:
    return Answer(status, json.dumps(found).encode(), {"Content-Type": "application/json"})


def missing(what: str) -> Answer:
    return as_json({"error": {"code": 404, "message": f"{what}: not here"}}, 404)


class Objects(MutableMapping[str, bytes]):
    """The objects of the bucket by name, in files that appear whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _file(self, name: str) -> Path:
        return self.folder / urllib.parse.quote(name, safe="")

    def __getitem__(self, name: str) -> bytes:
        try:
            return self._file(name).read_bytes()
        except FileNotFoundError:
            raise KeyError(name) from None

    def __setitem__(self, name: str, data: bytes) -> None:
        new = self.folder.parent / f"new-{threading.get_ident()}"
        new.write_bytes(data)
        new.rename(self._file(name))

    def __delitem__(self, name: str) -> None:
        try:
            self._file(name).unlink()
        except FileNotFoundError:
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(urllib.parse.unquote(path.name) for path in self.folder.iterdir()))

    def __len__(self) -> int:
        return len(list(self.folder.iterdir()))


def served(answer: Callable[[str, str, Mapping[str, str], bytes], Answer]) -> http.server.ThreadingHTTPServer:
    """A server on a port of this machine that answers (method, target, headers, body)."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            found = answer(self.command, self.path, headers, b"".join(self._body()))
            self.send_response(found.status)
            for name, value in found.headers.items():
                self.send_header(name, value)
            if "Content-Length" not in found.headers:
                self.send_header("Content-Length", str(len(found.body)))
            self.end_headers()
            self.wfile.write(found.body)

        def _body(self) -> Iterator[bytes]:
            if self.headers.get("Transfer-Encoding") != "chunked":
                yield self.rfile.read(int(self.headers.get("Content-Length") or 0))
                return
            while size := int(self.rfile.readline(), 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()

        do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _do  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("localhost", 0), Handler)
    server.daemon_threads = True
    return server


class ObjectStore:
    """Runs inside ``with``; one bucket.

    Attributes:
        objects: those of the bucket; a test may put some there.
        url: where it listens.
    """

    url: str

    def __init__(self, folder: Path) -> None:
        (folder / "objects").mkdir(parents=True)
        self._folder = folder
        self.objects = Objects(folder / "objects")

    def __enter__(self) -> ObjectStore:
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(self._folder)], stdout=subprocess.PIPE, text=True
        )
        self.url = self._process.stdout.readline().strip()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def reach(self, set_variable: Callable[[str, str], None]) -> None:
        """Name it in the environment as Cloud Storage and as S3."""
        account = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
        servers = {"STORAGE_EMULATOR_HOST": self.url, "AWS_ENDPOINT_URL": self.url}
        for name, value in {**servers, **account}.items():
            set_variable(name, value)

    @property
    def unknown(self) -> list[str]:
        """What was asked and is not known here."""
        file = self._folder / UNKNOWN
        return file.read_text().splitlines() if file.exists() else []


class Server:
    """What the process answers."""

    def __init__(self, folder: Path) -> None:
        self.objects = Objects(folder / "objects")
        self._unknown = folder / UNKNOWN
        self._uploads: dict[str, tuple[str, bytearray]] = {}
        self._parts: dict[str, dict[int, bytes]] = {}
        self._numbers = map(str, itertools.count())
        self._lock = threading.RLock()
        self.url = ""

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """What a request is answered with."""
        place = urllib.parse.urlsplit(target)
        query = dict(urllib.parse.parse_qsl(place.query, keep_blank_values=True))
        if re.search(f"/{PRIVATE}(/|$)", place.path):
            return as_json({"error": {"code": 403, "message": "you may not"}}, 403)
        with self._lock:
            for own, pattern, call in self._routes():
                match = re.fullmatch(pattern, place.path)
                if match and own == method:
                    try:
                        return call(*map(urllib.parse.unquote, match.groups()), query, headers, body)
                    except Exception as error:  # whatever it is, the test is told
                        self._note(f"{method} {target}: {error!r}")
                        return as_json({"error": {"code": 400, "message": repr(error)}}, 400)
            if f"/{MISSING}" not in place.path:
                self._note(f"{method} {target}")
        return missing(target)

    def _note(self, what: str) -> None:
        with self._unknown.open("a") as file:
            file.write(f"{what}\n")

    def _routes(self) -> list[tuple[str, str, Callable[..., Answer]]]:
        bucket, name = f"/storage/v1/b/{BUCKET}", "([^/]+)"
        return [
            ("GET", bucket, lambda *_: as_json({"id": BUCKET, "name": BUCKET, "projectNumber": "1"})),
            ("GET", f"{bucket}/o", self._list),
            ("GET", f"(?:/download)?{bucket}/o/{name}", self._get),
            ("DELETE", f"{bucket}/o/{name}", self._delete),
            ("POST", f"{bucket}/o/{name}/rewriteTo/b/{BUCKET}/o/{name}", self._rewrite),
            ("POST", f"/upload{bucket}/o", self._begin_upload),
            ("PUT", f"/upload{bucket}/o", self._go_on_with_upload),
            ("GET", f"/{BUCKET}/?", self._s3_list),
            ("HEAD", f"/{BUCKET}/(.+)", self._s3_head),
            ("GET", f"/{BUCKET}/(.+)", self._s3_get),
            ("PUT", f"/{BUCKET}/(.+)", self._s3_put),
            ("POST", f"/{BUCKET}/(.+)", self._s3_upload),
            ("DELETE", f"/{BUCKET}/(.+)", self._s3_delete),
        ]

    def _about(self, name: str) -> dict[str, Any]:
        import google_crc32c

        data = self.objects[name]
        return {
            "kind": "storage#object", "bucket": BUCKET, "name": name, "id": f"{BUCKET}/{name}/1",
            "generation": "1", "size": str(len(data)), "updated": NOW, "timeCreated": NOW,
            "crc32c": base64.b64encode(google_crc32c.Checksum(data).digest()).decode(),
            "md5Hash": base64.b64encode(hashlib.md5(data).digest()).decode(),
        }  # fmt: skip

    def _below(self, query: Mapping[str, str]) -> tuple[list[str], list[str]]:
        """The objects that a prefix begins, and if a delimiter is given, the folders of others."""
        start, slash = query.get("prefix", ""), query.get("delimiter", "")
        names = [name for name in self.objects if name.startswith(start)]
        inside = [name for name in names if slash and slash in name[len(start) :]]
        folders = {start + name[len(start) :].partition(slash)[0] + slash for name in inside}
        return [name for name in names if name not in inside], sorted(folders)

    def _list(self, query: Mapping[str, str], *_: Any) -> Answer:
        names, folders = self._below(query)
        return as_json({"items": [self._about(name) for name in names], "prefixes": folders})

    def _get(self, name: str, query: Mapping[str, str], headers: Mapping[str, str], _: bytes) -> Answer:
        if name not in self.objects:
            return missing(name)
        if query.get("alt") != "media":
            return as_json(self._about(name))
        return _part(self.objects[name], headers)

    def _delete(self, name: str, *_: Any) -> Answer:
        return Answer(204) if self.objects.pop(name, None) is not None else missing(name)

    def _rewrite(self, source: str, target: str, *_: Any) -> Answer:
        if source not in self.objects:
            return missing(source)
        self.objects[target] = self.objects[source]
        about = self._about(target)
        size = {"totalBytesRewritten": about["size"], "objectSize": about["size"]}
        return as_json({"kind": "storage#rewriteResponse", "done": True, "resource": about, **size})

    def _begin_upload(self, query: Mapping[str, str], headers: Mapping[str, str], body: bytes) -> Answer:
        assert query["uploadType"] == "resumable", query
        number = next(self._numbers)
        self._uploads[number] = query.get("name") or json.loads(body)["name"], bytearray()
        return Answer(
            200, headers={"Location": f"{self.url}/upload/storage/v1/b/{BUCKET}/o?upload_id={number}"}
        )

    def _go_on_with_upload(self, query: Mapping[str, str], headers: Mapping[str, str], body: bytes) -> Answer:
        name, data = self._uploads[query["upload_id"]]
        data += body
        # bytes 0-99/*, and at the end bytes 100-150/151, or bytes */0 of nothing.
        if headers.get("content-range", "").endswith("/*"):
            return Answer(308, headers={"Range": f"bytes=0-{len(data) - 1}"})
        self.objects[name] = bytes(data)
        return as_json(self._about(name))

    def _s3_list(self, query: Mapping[str, str], *_: Any) -> Answer:
        names, folders = self._below(query)
        return _xml(
            "ListBucketResult",
            f"<KeyCount>{len(names) + len(folders)}</KeyCount>",
            *(
                f"<Contents><Key>{escape(name)}</Key><Size>{len(self.objects[name])}</Size>"
                f"<LastModified>{NOW}</LastModified></Contents>"
                for name in names
            ),
            *(f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in folders),
        )

    def _s3_head(self, name: str, *_: Any) -> Answer:
        if name not in self.objects:
            return Answer(404)
        modified = "Sat, 21 Nov 2026 00:00:00 GMT"
        return Answer(
            200, headers={"Content-Length": str(len(self.objects[name])), "Last-Modified": modified}
        )

    def _s3_get(self, name: str, _: Mapping[str, str], headers: Mapping[str, str], __: bytes) -> Answer:
        return _part(self.objects[name], headers) if name in self.objects else Answer(404)

    def _s3_put(self, name: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes) -> Answer:
        source = headers.get("x-amz-copy-source")
        if "uploadId" in query:
            self._parts[query["uploadId"]][int(query["partNumber"])] = _unchunked(headers, body)
        elif source is not None:
            self.objects[name] = self.objects[urllib.parse.unquote(source).removeprefix(f"{BUCKET}/")]
            return _xml("CopyObjectResult", "<ETag>1</ETag>")
        else:
            self.objects[name] = _unchunked(headers, body)
        return Answer(200, headers={"ETag": '"1"'})

    def _s3_upload(self, name: str, query: Mapping[str, str], *_: Any) -> Answer:
        if "uploads" in query:
            number = next(self._numbers)
            self._parts[number] = {}
            return _xml("InitiateMultipartUploadResult", f"<UploadId>{number}</UploadId>")
        parts = self._parts[query["uploadId"]]
        self.objects[name] = b"".join(parts[number] for number in sorted(parts))
        return _xml("CompleteMultipartUploadResult", "<ETag>1</ETag>")

    def _s3_delete(self, name: str, *_: Any) -> Answer:
        self.objects.pop(name, None)
        return Answer(204)


def _part(data: bytes, headers: Mapping[str, str]) -> Answer:
    """What of an object the headers ask for."""
    match = re.fullmatch(r"bytes=(\d+)-(\d*)", headers.get("range", "bytes=0-"))
    start, stop = int(match[1]), min(int(match[2] or len(data)) + 1, len(data))
    if start >= len(data) > 0:
        return Answer(416)
    found = {"Content-Range": f"bytes {start}-{stop - 1}/{len(data)}"} if "range" in headers else {}
    return Answer(206 if found else 200, data[start:stop], found)


def _unchunked(headers: Mapping[str, str], body: bytes) -> bytes:
    """What S3's clients send in chunks with a checksum: hexadecimal lengths, each before its bytes."""
    if "aws-chunked" not in headers.get("content-encoding", ""):
        return body
    data = b""
    while body:
        length, _, body = body.partition(b"\r\n")
        size = int(length.partition(b";")[0], 16)
        if size == 0:
            break
        data, body = data + body[:size], body[size + 2 :]
    return data


def _xml(name: str, *inside: str) -> Answer:
    text = f"<?xml version='1.0'?><{name}>{''.join(inside)}</{name}>"
    return Answer(200, text.encode(), {"Content-Type": "application/xml"})


def main() -> None:
    """Serve a folder until this process is killed."""
    server = Server(Path(sys.argv[1]))
    http = served(server.answer)
    server.url = f"http://localhost:{http.server_port}"
    print(server.url, flush=True)
    http.serve_forever()


if __name__ == "__main__":
    main()
