"""Rotating panels: whose turn it is, and what becomes of reports that come at another time."""

from __future__ import annotations

import hashlib
import json
import struct
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ldpbeam as ldp
from ldpbeam.memoised.panels import Panel
from ldpbeam.schemas.reports.casts import cast_column
from ldpbeam.schemas.reports.turns import in_turn

HOUR = 3_600_000
START = 1_795_132_800_000  # 2026-11-20T00:00:00Z
PANEL = Panel("tea", HOUR, 24)
TEXT = """\
study: tea
attributes:
  drink: {domain: {categories: [tea, coffee, water]}, services: {app: {mechanism: oue, epsilon: 1.0}}}
windows: {size: 1h}
panel: {windows: 24}
"""


def people(count: int) -> list[bytes]:
    return [f"user {number}".encode() for number in range(count)]


def test_the_turn_is_what_the_documents_say() -> None:
    """docs/reports.md: SHA-256 of fields after their lengths, and of the user id; its first eight bytes."""
    for number, user in enumerate(people(50)):
        time = START + number * 7 * HOUR
        period = time // (24 * HOUR)
        fields = (b"ldpbeam panel 1", b"tea", b"drink", str(period).encode())
        text = b"".join(struct.pack(">I", len(field)) + field for field in fields) + user
        window = int.from_bytes(hashlib.sha256(text).digest()[:8], "big") % 24
        begin = period * 24 * HOUR + window * HOUR
        assert PANEL.turns("drink", [user], np.array([0]), np.array([time])).tolist() == [begin]


def test_a_user_has_one_turn_in_a_period_and_another_one_in_the_next() -> None:
    """Hours of 2,000 users over 30 days are even and independent: chi-square of 24 and of 24 x 24 cells.

    Of a chi-square with f degrees of freedom, 4 standard deviations are 4 sqrt(2 f).
    """
    days, users = 30, 2_000
    ids, rows = people(users), np.arange(users)
    hours = np.stack(
        [
            (PANEL.turns("drink", ids, rows, np.full(users, START + day * 24 * HOUR)) - START) // HOUR % 24
            for day in range(days)
        ]
    )
    for cells, freedom in ((hours, 23), (hours[1:] * 24 + hours[:-1], 575)):
        counts = np.bincount(cells.ravel(), minlength=freedom + 1)
        expected = counts.sum() / (freedom + 1)
        assert abs(((counts - expected) ** 2 / expected).sum() - freedom) < 4.0 * np.sqrt(2.0 * freedom)
    # Over all hours of the days, each user answers once a day.
    for user in ids[:20]:
        times = START + HOUR * np.arange(days * 24)
        answers = in_turn(PANEL, "drink", pa.array([user] * len(times), pa.binary()), times)
        assert (answers.reshape(days, 24).sum(axis=1) == 1).all()
    assert (PANEL.turns("food", ids, rows, np.full(users, START)) != PANEL.turns(
        "drink", ids, rows, np.full(users, START)
    )).mean() > 0.9  # fmt: skip


def test_both_forms_of_a_uuid_have_the_same_turn() -> None:
    ids = [uuid.UUID(int=number) for number in range(1, 40)]
    times = np.full(len(ids), START)
    text, raw = (
        cast_column("user_id", pa.array(form)) for form in ([str(i) for i in ids], [i.bytes for i in ids])
    )
    assert (in_turn(PANEL, "drink", text, times) == in_turn(PANEL, "drink", raw, times)).all()


def test_a_client_reports_in_its_turn_and_no_other() -> None:
    study = ldp.Study.from_yaml(TEXT)
    client = ldp.Client(study, "drink", "app")
    hours = START + HOUR * np.arange(24)
    (mine,) = np.flatnonzero(client.in_turn(["ann"] * 24, hours))
    assert client.report("tea", "ann", event_time=int(hours[mine]) + HOUR - 1)["user_id"] == "ann"
    with pytest.raises(ValueError, match=r"event time 0 is not in this user's turn .*ask in_turn"):
        client.report("tea", "ann", event_time=int(hours[mine]) + HOUR)
    with pytest.raises(ValueError, match="give when the values were observed"):
        client.report("tea", "ann")
    with pytest.raises(ValueError, match="give user_ids, which say whose turn it is"):
        client.report("tea", event_time=START)


@pytest.mark.parametrize(
    "windows", ["", "windows: {size: 1h, period: 30m}\n"], ids=["no windows", "sliding windows"]
)
def test_a_panel_needs_windows_that_do_not_slide(windows: str) -> None:
    with pytest.raises(
        ldp.StudyError, match=r"panel: .* windows that do not slide: give windows\.size alone"
    ):
        ldp.Study.from_yaml(TEXT.replace("windows: {size: 1h}\n", windows))


def test_of_everybody_who_reports_in_every_hour_one_report_counts() -> None:
    study, users = ldp.Study.from_yaml(TEXT), 400
    free = ldp.Client(ldp.Study.from_yaml(TEXT.replace("panel: {windows: 24}\n", "")), "drink", "app")
    ids = [str(uuid.UUID(int=number)) for number in range(users)] * 24
    times = np.repeat(START + HOUR * np.arange(24), users)
    result = ldp.estimate(study, free.reports(["tea"] * len(ids), ids, event_times=times))
    assert result.counts["used"] == users
    assert result.counts["dead_letters_by_reason"] == {"out_of_turn": 23 * users}


def test_simulated_people_answer_in_their_turn_and_a_key_that_hides_them_changes_nothing(
    command: Any, tmp_path: Path
) -> None:
    (tmp_path / "study.yaml").write_text(TEXT)
    rows = [f"user {u},{json.dumps('tea')},{START + h * HOUR}" for u in range(60) for h in range(24)]
    (tmp_path / "people.csv").write_text("\n".join(["id,drink,time", *rows]) + "\n")
    perturbed = command(
        "perturb", "--study", tmp_path / "study.yaml", "--attribute", "drink", "--input",
        tmp_path / "people.csv", "--value-column", "drink", "--user-column", "id", "--time-column", "time",
        "--output", tmp_path / "reports",
    )  # fmt: skip
    assert perturbed.code == 0, perturbed.err
    assert "60 of 1,440 values are sent; the others are not in their users' turn (panel)" in perturbed.err
    (tmp_path / "key").write_bytes(b"0123456789abcdef")
    estimated = command(
        "estimate", "--study", tmp_path / "study.yaml", "--input", tmp_path / "reports" / "*", "--output",
        tmp_path / "out", "--user-id-key-file", tmp_path / "key",
    )  # fmt: skip
    assert "60 reports in = 60 used" in estimated.out
