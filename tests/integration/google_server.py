"""Google's Cloud Storage and Dataflow, as far as Beam asks them, in this process.

``with GoogleServer() as server`` listens on ``server.url``, the value for ``STORAGE_EMULATOR_HOST`` and
``--dataflow_endpoint``. Objects are in memory. A bounded job is taken as it was staged, and runs on the local
engine with what it reads and writes on this server; a stream only arrives.
"""

from __future__ import annotations

import base64
import email
import hashlib
import http.server
import json
import re
import threading
import traceback
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import google_crc32c
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.environments import EmbeddedPythonEnvironment

BUCKET = "bucket"
NOW = "2026-11-21T00:00:00.000Z"
STREAMING = 2  # of the types of jobs


class Answer(NamedTuple):
    """What is sent back."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {}


def as_json(found: Any, status: int = 200) -> Answer:
    return Answer(status, json.dumps(found).encode(), {"Content-Type": "application/json"})


def missing(what: str) -> Answer:
    return as_json({"error": {"code": 404, "message": f"{what}: not here"}}, 404)


@dataclass
class Job:
    """A job that arrived.

    Attributes:
        about: the job, as it was sent.
        options: what Beam was told, in the words of Beam.
        pipeline: what was staged of it, which workers take.
        looks: how often its state was asked.
        problem: why it failed.
        done: when it has ended.
    """

    about: dict[str, Any]
    options: dict[str, Any]
    pipeline: Any
    looks: int = 0
    problem: str | None = None
    done: threading.Event = field(default_factory=threading.Event)

    @property
    def environment(self) -> dict[str, Any]:
        """Its environment, as it was sent."""
        found: dict[str, Any] = self.about["environment"]
        return found

    @property
    def steps(self) -> list[str]:
        """The full names of its steps, in no order."""
        return [step.unique_name for step in self.pipeline.components.transforms.values()]

    @property
    def streams(self) -> bool:
        """Whether it goes on until it is stopped."""
        return bool(self.about["type"] == STREAMING)

    @property
    def state(self) -> str:
        """At the first look it runs, whatever it does."""
        if self.looks < 2 or not self.done.is_set():
            return "JOB_STATE_RUNNING"
        return "JOB_STATE_FAILED" if self.problem else "JOB_STATE_DONE"


class GoogleServer:
    """Runs inside ``with``; one bucket, any project.

    Attributes:
        objects: the bucket's, by name; a test may put some there.
        jobs: those that arrived.
        unknown: what was asked and is not known here.
        fails: why every job fails, None if they run.
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.jobs: list[Job] = []
        self.unknown: list[str] = []
        self.fails: str | None = None
        self._uploads: dict[str, tuple[str, bytearray]] = {}
        self._running: list[threading.Thread] = []
        self._lock = threading.RLock()
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _do(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                headers = {name.lower(): value for name, value in self.headers.items()}
                answer = server.answer(self.command, self.path, headers, self.rfile.read(length))
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            do_GET = do_POST = do_PUT = do_DELETE = _do  # noqa: N815

            def log_message(self, *_: Any) -> None:
                pass

        self._http = http.server.ThreadingHTTPServer(("localhost", 0), Handler)
        self._http.daemon_threads = True

    def __enter__(self) -> GoogleServer:
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for thread in self._running:
            thread.join(60)
        self._http.shutdown()
        self._http.server_close()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://localhost:{self._http.server_port}"

    def staged(self, job: Job) -> dict[str, bytes]:
        """What was staged for a job, by the name that workers give it."""
        folder = job.options["staging_location"].removeprefix(f"gs://{BUCKET}/") + "/"
        return {
            name.removeprefix(folder): data
            for name, data in self.objects.items()
            if name.startswith(folder) and "/" not in name.removeprefix(folder)
        }

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """What a request is answered with."""
        place = urllib.parse.urlsplit(target)
        query = dict(urllib.parse.parse_qsl(place.query))
        with self._lock:
            for own, pattern, call in self._routes():
                match = re.fullmatch(pattern, place.path)
                if match and own == method:
                    try:
                        return call(*map(urllib.parse.unquote, match.groups()), query, headers, body)
                    except Exception as error:  # whatever it is, the test is told
                        self.unknown.append(f"{method} {target}: {error!r}")
                        return as_json({"error": {"code": 400, "message": repr(error)}}, 400)
        self.unknown.append(f"{method} {target}")
        return missing(target)

    def _routes(self) -> list[tuple[str, str, Callable[..., Answer]]]:
        bucket, name = f"/storage/v1/b/{BUCKET}", "([^/]+)"
        jobs = f"/v1b3/projects/{name}/locations/{name}/jobs"
        return [
            ("GET", bucket, lambda *_: as_json({"id": BUCKET, "name": BUCKET, "projectNumber": "1"})),
            ("GET", f"{bucket}/o", self._list),
            ("GET", f"(?:/download)?{bucket}/o/{name}", self._get),
            ("DELETE", f"{bucket}/o/{name}", self._delete),
            ("POST", f"{bucket}/o/{name}/(?:copyTo|rewriteTo)/b/{BUCKET}/o/{name}", self._copy),
            ("POST", f"/upload{bucket}/o", self._begin_upload),
            ("PUT", f"/upload{bucket}/o", self._go_on_with_upload),
            ("POST", "/batch/storage/v1", self._batch),
            ("POST", jobs, self._take_job),
            ("GET", f"{jobs}/{name}", self._job),
            ("GET", f"{jobs}/{name}/messages", self._messages),
        ]

    def _about(self, name: str) -> dict[str, Any]:
        data = self.objects[name]
        return {
            "kind": "storage#object",
            "bucket": BUCKET,
            "name": name,
            "id": f"{BUCKET}/{name}/1",
            "generation": "1",
            "size": str(len(data)),
            "updated": NOW,
            "timeCreated": NOW,
            "crc32c": base64.b64encode(google_crc32c.Checksum(data).digest()).decode(),
            "md5Hash": base64.b64encode(hashlib.md5(data).digest()).decode(),
        }

    def _list(self, query: Mapping[str, str], *_: Any) -> Answer:
        start = query.get("prefix", "")
        return as_json(
            {"items": [self._about(name) for name in sorted(self.objects) if name.startswith(start)]}
        )

    def _get(self, name: str, query: Mapping[str, str], headers: Mapping[str, str], _: bytes) -> Answer:
        if name not in self.objects:
            return missing(name)
        if query.get("alt") != "media":
            return as_json(self._about(name))
        data = self.objects[name]
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", headers.get("range", "bytes=0-"))
        assert match is not None, headers["range"]
        start, stop = int(match[1]), min(int(match[2] or len(data)) + 1, len(data))
        if start >= len(data) > 0:
            return Answer(416)
        found = {"Content-Range": f"bytes {start}-{stop - 1}/{len(data)}"} if "range" in headers else {}
        return Answer(206 if found else 200, data[start:stop], found)

    def _delete(self, name: str, *_: Any) -> Answer:
        return Answer(204) if self.objects.pop(name, None) is not None else missing(name)

    def _copy(self, source: str, target: str, *_: Any) -> Answer:
        if source not in self.objects:
            return missing(source)
        self.objects[target] = self.objects[source]
        return as_json(self._about(target))

    def _begin_upload(self, query: Mapping[str, str], headers: Mapping[str, str], body: bytes) -> Answer:
        assert query["uploadType"] == "resumable", query
        number = str(len(self._uploads))
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

    def _batch(self, _: Mapping[str, str], headers: Mapping[str, str], body: bytes) -> Answer:
        answers = b""
        for part in _parts(headers["content-type"], body):
            method, target, _ = part.decode().splitlines()[0].split(" ")
            inner = self.answer(
                method, urllib.parse.urlsplit(target)._replace(scheme="", netloc="").geturl(), {}, b""
            )
            answers += b"--part\r\nContent-Type: application/http\r\n\r\n"
            answers += b"HTTP/1.1 %d .\r\nContent-Type: application/json\r\n\r\n%s\r\n" % (
                inner.status,
                inner.body,
            )
        return Answer(200, answers + b"--part--", {"Content-Type": 'multipart/mixed; boundary="part"'})

    def _take_job(self, project: str, region: str, _: Any, __: Any, body: bytes) -> Answer:
        about = json.loads(body)
        options = about["environment"]["sdkPipelineOptions"]["options"]
        staged = self.objects[options["pipelineUrl"].removeprefix(f"gs://{BUCKET}/")]
        job = Job(about, options, beam_runner_api_pb2.Pipeline.FromString(staged))
        self.jobs.append(job)
        if self.fails:
            job.problem = self.fails
            job.done.set()
        elif not job.streams:
            self._running.append(threading.Thread(target=_run, args=(job,), daemon=True))
            self._running[-1].start()
        return self._said(job)

    def _job(self, project: str, region: str, number: str, *_: Any) -> Answer:
        job = self.jobs[int(number)]
        job.looks += 1
        return self._said(job)

    def _said(self, job: Job) -> Answer:
        return as_json(
            {
                "id": str(self.jobs.index(job)),
                "name": job.about["name"],
                "clientRequestId": job.about["clientRequestId"],
                "currentState": job.state,
            }
        )

    def _messages(self, project: str, region: str, number: str, *_: Any) -> Answer:
        problem = self.jobs[int(number)].problem
        message = {"id": "1", "time": NOW, "messageText": problem, "messageImportance": "JOB_MESSAGE_ERROR"}
        return as_json({"jobMessages": [message] if problem else []})


def _parts(kind: str, body: bytes) -> list[bytes]:
    """The parts of a multipart body."""
    message = email.message_from_bytes(f"Content-Type: {kind}\r\n\r\n".encode() + body)
    return [_payload(part) for part in message.get_payload()]  # type: ignore[union-attr]


def _payload(part: Any) -> bytes:
    found: bytes = part.get_payload(decode=True)
    return found


def _run(job: Job) -> None:
    """Run what was staged, as workers of this process do."""
    try:
        pipeline = beam_runner_api_pb2.Pipeline()
        pipeline.CopyFrom(job.pipeline)
        for environment in pipeline.components.environments.values():
            environment.CopyFrom(EmbeddedPythonEnvironment.default().to_runner_api(None))
        FnApiRunner().run_via_runner_api(pipeline, PipelineOptions([])).wait_until_finish()
    except Exception:  # whatever it is, the job has failed
        job.problem = traceback.format_exc()
    finally:
        job.done.set()
