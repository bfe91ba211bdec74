"""Times on a command line: those of reports, and places in a topic of Kafka."""

from __future__ import annotations

import numpy as np

from ldpbeam.cells import Clock, moment
from ldpbeam.errors import UserError
from ldpbeam.inputs.kafka_brokers import EARLIEST, LATEST
from ldpbeam.schemas.reports import event_times


def time_of(option: str, text: str | None, words: str = "", clock: Clock | None = None) -> int | None:
    """An option's time in epoch milliseconds; None if the option is not given.

    A time without a zone is what the clock shows; without a clock, a date is in UTC.

    Args:
        option: the name of the option.
        text: its value.
        words: what else the option accepts, as the end of a sentence.
        clock: the clock of the study; None for UTC.

    Raises:
        UserError: if the text is neither a time nor epoch milliseconds, or the time is out of range.
    """
    if text is None:
        return None
    try:
        # Fewer digits are a date without hyphens, or a mistake.
        number = text.isascii() and text.isdigit() and len(text) > len("20261120")
        time = int(text) if number else moment(text, clock)
    except ValueError:
        raise UserError(
            f"{option} {text}: write a time with its zone, as in 2026-11-20T10:00:00Z, or a date{words}"
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
