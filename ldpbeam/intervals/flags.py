"""The flags of intervals: what is wrong; what that means for the number; what to do; and the page about it.

``docs/formulas.md`` has a table of all flags, by the words before the first colon.
"""

from __future__ import annotations

PAGE = "docs/formulas.md#what-a-flag-says"

UNEXPLAINED = (
    "no density that was tried explains the reports: people have spikes that were not found, or some reports "
    "are false, and the truth may lie outside of intervals that take people for smooth; test the reports, "
    f"and take the certain intervals if nobody cheats ({PAGE})"
)
_FALSE = "the truth may lie outside of every interval; find them before you use the number"
MISFIT = (
    "reports to {services} do not fit its mechanism and epsilon: some are false, or of another epsilon, and "
    f"{_FALSE} ({PAGE})"
)
MISFIT_TAILS = (
    "reports to {services} reach further beyond the ends of the domain, or less far, than noise does: "
    f"some are false, or of another epsilon or domain, and {_FALSE} ({PAGE})"
)
MISFIT_USERS = (
    "the reports of the same users to {services} are inconsistent: some are false, or other people's, and "
    f"{_FALSE} ({PAGE})"
)
REFUSED_PAYLOADS = (
    "up to {share} of the payloads of {service} were refused or do not decode: which ones can depend on "
    f"their noise, so the others can be biased, and {_FALSE} ({PAGE})"
)
