"""Build the wheel and the source package twice, from two clones, and refuse them if their bytes differ.

    python .ci/packages.py    leaves them in dist/, and in build/sbom.json a list of what the wheel requires

Each file inside has the time of the commit, so whoever builds a commit with the same tools gets the same
bytes.
"""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run(*command: object, cwd: Path = ROOT, **environment: str) -> str:
    """What a program prints; it must end well."""
    environment = {**os.environ, **environment}
    return subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def without_times(package: bytes, time: int) -> bytes:
    """A source package whose files have one time and no owner; setuptools gives them those of the build."""
    packed = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(package)) as old,
        gzip.GzipFile(fileobj=packed, mode="wb", filename="", mtime=time) as squeezed,
        tarfile.open(fileobj=squeezed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            content = old.extractfile(member)
            member.mtime, member.uid, member.gid, member.uname, member.gname = time, 0, 0, "", ""
            member.pax_headers = {}
            new.addfile(member, content)
    return packed.getvalue()


def built(clone: Path, time: int) -> dict[str, bytes]:
    """The bytes of each package of a clone, by the package's name."""
    run("git", "clone", "--quiet", ROOT, clone)
    run(sys.executable, "-m", "build", "--installer", "uv", cwd=clone, SOURCE_DATE_EPOCH=str(time))
    packages = {path.name: path.read_bytes() for path in (clone / "dist").iterdir()}
    return {
        name: without_times(content, time) if name.endswith(".gz") else content
        for name, content in packages.items()
    }


def main() -> None:
    """Write the packages, and the list of what they require."""
    time = int(run("git", "log", "-1", "--format=%ct"))
    with tempfile.TemporaryDirectory() as place:
        first, second = (built(Path(place) / name, time) for name in ("first", "second"))
        different = [name for name in first if first[name] != second.get(name)]
        if different:
            raise SystemExit(f"two builds of one commit differ: {', '.join(different)}")
        dist, uv = ROOT / "dist", Path(sys.executable).with_name("uv")
        dist.mkdir(exist_ok=True)
        for name, content in first.items():
            (dist / name).write_bytes(content)
            print(f"dist/{name}: {len(content):,} bytes, the same in two builds")
        (wheel,) = [dist / name for name in first if name.endswith(".whl")]
        installed, sbom = Path(place) / "installed", ROOT / "build" / "sbom.json"
        sbom.parent.mkdir(exist_ok=True)
        run(uv, "venv", "--quiet", installed)
        run(uv, "pip", "install", "--quiet", "--python", installed, "--constraint", "constraints.txt", wheel)
        cyclonedx = ("tool", "run", "--from", "cyclonedx-bom==7.*", "cyclonedx-py")
        run(uv, *cyclonedx, "environment", "-o", sbom, installed)


if __name__ == "__main__":
    main()
