"""A client of the REST API of a Flink cluster."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

#: The seconds after which a request fails if there is no answer.
_PATIENCE = 20.0


class FlinkError(RuntimeError):
    """Something that Flink needs is missing or fails; the message says what, and what to do."""


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
        return self.address.rstrip("/") if "://" in self.address else f"http://{self.address}"

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
        try:
            request = urllib.request.Request(f"{self.url}/{path}", method=method)
            with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
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

    def jobs(self) -> list[dict[str, Any]]:
        """The running and past jobs, the latest first, each with ``jid``, ``name`` and ``state``."""
        overview = self.get("jobs/overview")["jobs"]
        return sorted(overview, key=lambda job: -job["start-time"])

    def cancel(self, job: str) -> None:
        """Cancel a job."""
        self._ask("PATCH", f"jobs/{job}?mode=cancel")


def _first_error(body: bytes) -> str:
    try:
        return str(json.loads(body)["errors"][0]).splitlines()[0]
    except (ValueError, LookupError, TypeError):
        return ""
