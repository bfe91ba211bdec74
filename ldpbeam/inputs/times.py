"""Times that a user writes: those of reports, and places in a topic of Kafka."""

from __future__ import annotations

import numpy as np
from pydantic import TypeAdapter

from ldpbeam.errors import UserError
from ldpbeam.inputs.kafka_brokers import EARLIEST, LATEST
from ldpbeam.schemas.reports import event_times
from ldpbeam.schemas.study.times import Time


def time_of(option: str, text: str | None, words: str = "") -> int | None:
    """An option's time in epoch milliseconds; None if the option is not given.

    Args:
        option: its name.
        text: what was given.
        words: what else the option takes, as the end of a sentence.

    Raises:
        UserError: if the text is neither RFC 3339 nor epoch milliseconds, or the time is out of range.
    """
    if text is None:
        return None
    try:
        time = int(text) if text.isascii() and text.isdigit() else TypeAdapter(Time).validate_python(text)
    except ValueError:
        raise UserError(
            f"{option} {text}: write a time with its zone, as in 2026-11-20T10:00:00Z{words}"
        ) from None
    problem = int(event_times.problems(np.array([time]))[0])
    if problem > event_times.BEFORE_1990:
        raise UserError(f"{option} {text}: {event_times.PROBLEMS[problem - 1][1]}")
    return int(time)


def offset_of(option: str, text: str | None, default: str) -> str | int:
    """An option's place in a topic of Kafka: a word, or a time in epoch milliseconds.

    Raises:
        UserError: if the text is neither.
    """
    if text is None or text in (EARLIEST, LATEST):
        return text or default
    time = time_of(option, text, f", or {EARLIEST}, or {LATEST}")
    assert time is not None
    return time
