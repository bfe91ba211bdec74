"""A client of the REST API of a Flink cluster."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any, NamedTuple

from ldpbeam.runners.flink.cluster_keys import cluster_at, keys_at
from ldpbeam.runners.flink.parts import FlinkError
from ldpbeam.runners.flink.processes import lost

#: The advice if a process of a cluster on this machine has ended.
ANEW = "make flink-down, then make flink-up, start it anew"
#: The seconds after which a request fails if there is no answer.
_PATIENCE = 20.0


class Records(NamedTuple):
    """The numbers of records that one subtask of a vertex has read and written so far."""

    read: int
    written: int


@dataclass(frozen=True)
class Rest:
    """A cluster's REST API.

    Attributes:
        address: ``host:port``, or a URL.
    """

    address: str

    @property
    def url(self) -> str:
        """The URL of the web page and of the API."""
        if "://" in self.address:
            return self.address.rstrip("/")
        return f"{'http' if keys_at(self.address) is None else 'https'}://{self.address}"

    def get(self, path: str) -> Any:
        """The JSON value at a path of the API, decoded.

        Raises:
            FlinkError: if no cluster answers, or it answers with an error.
        """
        try:
            return json.loads(self._ask("GET", path))
        except ValueError:
            raise self._silent("another program answers at this address") from None

    def _ask(self, method: str, path: str) -> bytes:
        known = keys_at(self.address)
        context = None if known is None else known.context()
        try:
            request = urllib.request.Request(f"{self.url}/{path}", method=method)
            with urllib.request.urlopen(request, timeout=_PATIENCE, context=context) as answer:
                body: bytes = answer.read()
            return body
        except urllib.error.HTTPError as error:
            with error:
                raise FlinkError(f"{self.url}/{path}: {error.code} {_first_error(error.read())}") from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise self._silent(getattr(error, "reason", error)) from None

    def _silent(self, reason: object) -> FlinkError:
        return FlinkError(
            f"{self.address}: no Flink cluster answers there ({reason}); name the address of its web page"
        )

    def version(self) -> str:
        """Flink's version, such as 1.19.3."""
        return str(self.get("config")["flink-version"])

    def task_managers(self) -> dict[str, int]:
        """The slots of each task manager by its name; a killed one is listed until the cluster notices it."""
        return {entry["id"]: entry["slotsNumber"] for entry in self.get("taskmanagers")["taskmanagers"]}

    def slots(self) -> list[int]:
        """The number of slots of each task manager."""
        return list(self.task_managers().values())

    def shortage(self) -> str:
        """A sentence about a job that waits for slots: how many slots there are, and what to do."""
        overview = self.get("overview")
        what = (
            f"the job waits for slots: the cluster has {overview['slots-total']} in "
            f"{overview['taskmanagers']} task managers, and {overview['slots-available']} of them are free"
        )
        folder = cluster_at(self.address)
        gone = [] if folder is None else lost(folder)
        if gone:
            return f"{what}; {' and '.join(gone)} ended: {ANEW}"
        return f"{what}; start another task manager, or run with a smaller --parallelism"

    def jobs(self) -> list[dict[str, Any]]:
        """The running and past jobs, the latest first, each with ``jid``, ``name`` and ``state``."""
        overview = self.get("jobs/overview")["jobs"]
        return sorted(overview, key=lambda job: -job["start-time"])

    def job(self, job: str) -> dict[str, Any]:
        """The details of a job, given its id."""
        details: dict[str, Any] = self.get(f"jobs/{job}")
        return details

    def records(self, job: str) -> dict[str, list[Records]]:
        """The records that each subtask of a job's vertices read and wrote, by the vertex's name."""
        by_vertex = {}
        for vertex in self.job(job)["vertices"]:
            subtasks = self.get(f"jobs/{job}/vertices/{vertex['id']}")["subtasks"]
            metrics = [subtask["metrics"] for subtask in subtasks]
            by_vertex[vertex["name"]] = [Records(m["read-records"], m["write-records"]) for m in metrics]
        return by_vertex

    def checkpoints(self, job: str) -> dict[str, Any]:
        """The counts of a job's checkpoints, and the latest ones."""
        checkpoints: dict[str, Any] = self.get(f"jobs/{job}/checkpoints")
        return checkpoints

    def problems(self, job: str) -> list[str]:
        """The stack traces of the errors that made a job fail or restart, the latest first."""
        history = self.get(f"jobs/{job}/exceptions")["exceptionHistory"]["entries"]
        return [entry["stacktrace"] for entry in history]

    def cancel(self, job: str) -> None:
        """Cancel a job."""
        self._ask("PATCH", f"jobs/{job}?mode=cancel")


def _first_error(body: bytes) -> str:
    try:
        return str(json.loads(body)["errors"][0]).splitlines()[0]
    except (ValueError, LookupError, TypeError):
        return ""
