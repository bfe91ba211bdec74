"""The faults and states that seeds must come through: what no seed meets is not tested."""

from __future__ import annotations

#: What some of any sixty seeds meet.
COMMON = {
    *(
        f"fault: {name}"
        for name in (
            "a full disk", "a name was lost", "a solver died", "a write was torn",
            "an acknowledgement was lost", "delivered again after it was committed", "killed at a delete",
            "killed at a rename", "killed at a sync", "killed at a sync of a folder", "killed at a write",
            "killed between two turns", "retention removed what was not read", "the clock was set",
            "the last message was read again", "the server was away",
        )
    ),
    *(
        f"state: {name}"
        for name in (
            "a process ended before its first commit", "a report was late",
            "a segment left the disk while others stayed", "a window had more than two panes",
            "a window had several panes", "a window lacked what was lost",
            "a window that had closed waited for late reports", "longer windows were joined",
            "panes were unsolved at a commit", "reports waited at a commit", "some of the late were taken",
            "the reports of a window lay in several segments", "there were several segments",
        )
    ),
    *(
        f"world: {name}"
        for name in (
            "a log", "a log begins late", "a subscription", "duplicates: keep", "early panes", "groups",
            "joined windows", "lateness", "memoised clients", "retention", "slides", "two services",
            "users: none",
        )
    ),
}  # fmt: skip
#: What some of any thousand seeds meet.
RARE = COMMON | {
    "fault: a new folder was lost",
    "fault: killed at a new folder",
    "state: a segment was there without a manifest",
}
