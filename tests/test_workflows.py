"""The workflows and forms of the repository: what they run is pinned, and what they name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = [path for path in sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")) if path.stem != "config"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_an_action_is_pinned_by_its_hash_and_says_its_version(path: Path) -> None:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if "uses:" in line]
    assert lines
    for line in lines:
        assert re.fullmatch(r" +(- )?uses: [\w/.-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", line), line


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_job_reads_unless_it_says_what_else_it_does(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    writing = {name for name, job in workflow["jobs"].items() if "write" in str(job.get("permissions"))}
    assert writing == ({"build", "publish"} if path.stem == "release" else set())


def test_what_a_workflow_makes_is_a_goal_of_the_makefile() -> None:
    goals = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    made = {
        goal
        for path in WORKFLOWS
        for goal in re.findall(r"\bmake ([a-z-]+)\b", path.read_text(encoding="utf-8"))
    }
    assert made - {"maven"} <= goals, made - goals


def test_a_release_publishes_only_what_every_test_has_passed() -> None:
    jobs = yaml.safe_load((GITHUB / "workflows" / "release.yml").read_text(encoding="utf-8"))["jobs"]
    assert set(jobs["publish"]["needs"]) == {"every-test", "build"}
    assert jobs["publish"]["if"] == "github.ref_type == 'tag'"
    assert "LDPBEAM_EVERY_CASE=1" in jobs["every-test"]["steps"][-1]["run"]


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_has_what_github_wants(path: Path) -> None:
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= set(form)
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert len({field["id"] for field in fields}) == len(fields)
    assert any(field["validations"]["required"] for field in fields)
