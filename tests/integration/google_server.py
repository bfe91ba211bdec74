"""Google's Dataflow, as far as Beam asks it, in this process, beside a Cloud Storage in one of its own.

``with GoogleServer(folder) as server`` listens on ``server.url``, the value of ``--dataflow_endpoint``;
objects are in ``server.store``. A bounded job is taken as it was staged, and runs on the local engine with
what it reads and writes in the store; a stream only arrives.
"""

from __future__ import annotations

import json
import re
import threading
import traceback
import urllib.parse
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.environments import EmbeddedPythonEnvironment
from support.object_store import BUCKET, NOW, Answer, ObjectStore, as_json, missing, served

STREAMING = 2  # of the types of jobs


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
        store: Cloud Storage.
        jobs: those that arrived.
        fails: why every job fails, None if they run.
    """

    def __init__(self, folder: Path) -> None:
        self.store = ObjectStore(folder)
        self.jobs: list[Job] = []
        self.fails: str | None = None
        self._unknown: list[str] = []
        self._running: list[threading.Thread] = []
        self._lock = threading.RLock()
        self._http = served(self.answer)

    def __enter__(self) -> GoogleServer:
        self.store.__enter__()
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *given: object) -> None:
        for thread in self._running:
            thread.join(60)
        self._http.shutdown()
        self._http.server_close()
        self.store.__exit__(*given)

    @property
    def objects(self) -> MutableMapping[str, bytes]:
        """The bucket's, by name; a test may put some there."""
        return self.store.objects

    @property
    def unknown(self) -> list[str]:
        """What was asked and is not known here."""
        return [*self._unknown, *self.store.unknown]

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
        path = urllib.parse.urlsplit(target).path
        name = "([^/]+)"
        jobs = f"/v1b3/projects/{name}/locations/{name}/jobs"
        routes: list[tuple[str, str, Callable[..., Answer]]] = [
            ("POST", jobs, self._take_job),
            ("GET", f"{jobs}/{name}", self._job),
            ("GET", f"{jobs}/{name}/messages", self._messages),
        ]
        with self._lock:
            for own, pattern, call in routes:
                match = re.fullmatch(pattern, path)
                if match and own == method:
                    return call(*match.groups(), body)
        self._unknown.append(f"{method} {target}")
        return missing(target)

    def _take_job(self, project: str, region: str, body: bytes) -> Answer:
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

    def _job(self, project: str, region: str, number: str, _: bytes) -> Answer:
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

    def _messages(self, project: str, region: str, number: str, _: bytes) -> Answer:
        problem = self.jobs[int(number)].problem
        message = {"id": "1", "time": NOW, "messageText": problem, "messageImportance": "JOB_MESSAGE_ERROR"}
        return as_json({"jobMessages": [message] if problem else []})


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
