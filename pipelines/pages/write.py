"""Writing the page of outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ldpbeam.pipelines.clients.people import People
from ldpbeam.pipelines.commands.explain import explain
from ldpbeam.pipelines.errors import UserError
from ldpbeam.pipelines.results.results import Results
from ldpbeam.pipelines.runs.output import named_in_errors
from ldpbeam.transforms.storage import make_folder, write_bytes

if TYPE_CHECKING:
    from ldpbeam.pipelines.pages.page import Content


def write_page(
    path: str, outputs: Sequence[Results], people: Mapping[str, People], reload: int | None = None
) -> int:
    """Write the page of some outputs, whole or not at all, and return its size in bytes.

    Args:
        path: the file.
        outputs: what is in each output folder.
        people: true values to compare with, by attribute.
        reload: the seconds after which an open page loads itself again; None for never.

    Raises:
        UserError: if the page cannot be written.
    """
    from ldpbeam.pipelines.pages.page import page

    text = page(_contents(outputs, people), reload).encode()
    with named_in_errors(path):
        write_bytes(path, text)
    return len(text)


def write_images(folder: str, outputs: Sequence[Results], people: Mapping[str, People]) -> int:
    """Write each chart of the page as SVG and as PNG, and return the number of files.

    Raises:
        UserError: if they cannot be written.
    """
    from ldpbeam.pipelines.pages.export import images

    count = 0
    with named_in_errors(folder):
        make_folder(folder)
        for name, image in images(_contents(outputs, people)):
            write_bytes(f"{folder}/{name}", image)
            count += 1
    return count


def _contents(outputs: Sequence[Results], people: Mapping[str, People]) -> list[Content]:
    # Altair is in an extra, and takes half a second to import.
    from ldpbeam.pipelines.pages.contents import content_of

    return [
        content_of(results, explain(results.study) if results.study is not None else [], people)
        for results in outputs
    ]


def check_extra() -> None:
    """Check that the libraries of the page are installed.

    Raises:
        UserError: if they are not.
    """
    if find_spec("altair") is None or find_spec("vl_convert") is None:
        raise UserError("the page needs the extra [report]: pip install 'ldpbeam[report]'")
