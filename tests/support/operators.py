"""What operators are given, read: the stages of an image, and the objects of a manifest."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from dockerfile_parse import DockerfileParser

RUNNERS = Path(__file__).parents[2] / "runners"
DOCKERFILE = RUNNERS / "docker" / "Dockerfile"


class Image(NamedTuple):
    """A stage of the images.

    Attributes:
        entrypoint: the command that it starts, with arguments of its container after it.
        user: who runs it, as a number.
        extras: the extras of ldpbeam that are installed.
    """

    entrypoint: list[str]
    user: int
    extras: set[str]


def image_of(stage: str) -> Image:
    """A stage of the Dockerfile that is made of no other."""
    parser = DockerfileParser(fileobj=io.BytesIO(DOCKERFILE.read_bytes()))
    name, values = "", {}
    for line in parser.structure:
        if line["instruction"] == "FROM":
            name = line["value"].rpartition(" AS ")[2]
        elif name == stage:
            values[line["instruction"]] = f"{values.get(line['instruction'], '')} {line['value']}".strip()
    (extras,) = re.findall(r"/ldpbeam-\*\.whl\)\[([a-z,]+)\]", values["RUN"])
    return Image(json.loads(values["ENTRYPOINT"]), int(values["USER"]), {*extras.split(",")})


def objects_of(manifest: str) -> list[dict[str, Any]]:
    """The objects of a file of Kubernetes."""
    return list(yaml.safe_load_all((RUNNERS / "kubernetes" / manifest).read_text(encoding="utf-8")))


def object_of(manifest: str, kind: str) -> dict[str, Any]:
    """The one object of a kind."""
    (found,) = [stated for stated in objects_of(manifest) if stated["kind"] == kind]
    return found
