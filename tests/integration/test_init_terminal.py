"""``ldpbeam init`` on a terminal: it asks, asks again after a mistake, and stops when told."""

from __future__ import annotations

from pathlib import Path

from terminal import CTRL_C, ldpbeam, terminal

from ldpbeam.schemas.study.yaml_file import read_study


def test_a_person_answers_questions(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    answers = [
        ("Attribute to estimate", "minutes to work"),  # no name
        ("names have letters", "minutes"),
        ("numbers or categories", "number"),  # no choice
        ("there are numbers, categories", ""),  # the proposal: numbers
        ("From which number to which:", "180 0"),  # the wrong way round
        ("low < high", "0 180"),
        ("Epsilon", "many"),  # no number
        ("could not convert", "0.5"),
        ("Services that collect it", "maps taxi=piecewise"),
        ("Size of windows", "1 hour"),
        ("write a whole number and a unit", "1h"),
        ("whose values are groups", "user_id"),
        ("this is a column of every report", "region"),
    ]
    with terminal(ldpbeam("init", "--output", path)) as asked:
        place = 0
        for hint, answer in answers:
            asked.wait_until(lambda hint=hint, place=place: hint in asked.said[place:])  # type: ignore[misc]
            place = len(asked.said)
            asked.press(answer.encode() + b"\n")
        assert asked.wait() == 0, asked.said
    assert f"ldpbeam explain --study {path}" in asked.said
    study = read_study(path)
    described = study.attribute("minutes")
    assert (described.domain.low, described.domain.high) == (0, 180)  # type: ignore[union-attr]
    assert [(v.service, v.mechanism.name, v.mechanism.epsilon) for v in described.versions] == [
        ("maps", "square_wave", 0.5),
        ("taxi", "piecewise", 0.5),
    ]
    assert study.groups is not None and study.groups.field == "region"
    assert study.windows is not None and study.windows.size == 3_600_000


def test_ctrl_c_ends_it_and_nothing_is_written(tmp_path: Path) -> None:
    with terminal(ldpbeam("init", "--output", tmp_path / "study.yaml")) as asked:
        asked.wait_until(lambda: "Attribute to estimate" in asked.said)
        asked.press(CTRL_C)
        assert asked.wait() == 130
    assert "ldpbeam: init was interrupted" in asked.said
    assert "Traceback" not in asked.said
    assert not list(tmp_path.iterdir())


def test_the_end_of_the_input_ends_it_too(tmp_path: Path) -> None:
    with terminal(ldpbeam("init", "--output", tmp_path / "study.yaml")) as asked:
        asked.wait_until(lambda: "Attribute to estimate" in asked.said)
        asked.press(b"\x04")
        assert asked.wait() == 2
    assert "the input ended before all was answered; nothing is written" in asked.said
    assert not list(tmp_path.iterdir())
