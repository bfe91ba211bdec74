"""The reasons why a record is a dead letter and not a report."""

from __future__ import annotations

from ldpbeam.schemas.reports import event_times

#: Why a record becomes a dead letter, by code; the first that applies is given. Code 0 is a valid report.
REASONS = (
    "",
    "no_user_id",
    "user_id_too_long",
    "report_id_too_long",
    "group_too_long",
    "no_attribute",
    "unknown_attribute",
    "no_service",
    "unknown_service",
    "no_event_time",
    *(reason for reason, _ in event_times.PROBLEMS),
    "unknown_version",
    "other_stamp",
    "no_payload",
    "payload_not_a_number",
    "payload_not_bytes",
    "payload_wrong_length",
    "payload_outside_mechanism",
    "out_of_turn",
)
#: The code of each reason.
CODE = {reason: code for code, reason in enumerate(REASONS)}
#: The detail of a dead letter, for the reasons that have one.
DETAILS = dict(event_times.PROBLEMS)
