"""What flags of intervals say: what is wrong; what that means for the number; what to do, and their page.

``docs/formulas.md`` has a table of all, by what each says before its first colon.
"""

from __future__ import annotations

from collections.abc import Mapping

PAGE = "docs/formulas.md#what-a-flag-says"

LITTLE = (
    "the reports show no detail finer than {detail} of the range: what is finer in these intervals is the "
    f"model's, which takes the density for smooth; collect more reports, or take a larger epsilon ({PAGE})"
)
UNEXPLAINED = (
    "no density that was tried explains the reports: people have spikes that were not found, or some reports "
    "are false, and the truth may lie outside of these intervals; test the reports, and take the strict "
    f"intervals if nobody cheats ({PAGE})"
)
TAKE_STRICT = (
    "the interval leaves the strict one: the reports contradict the smooth density that it rests on, and the "
    f"truth may lie outside of it; take the strict interval, which holds whatever the density is ({PAGE})"
)
HEAPS = (
    "the reports do not tell whether more people are at {values}: if so, these intervals are too narrow "
    f"there; take the strict intervals, which hold either way ({PAGE})"
)
HIDDEN = (
    "the reports do not tell whether many people are at {value}: clients clip, and up to {share} may be "
    f"there, as its interval says; ask clients how many they clip ({PAGE})"
)
TOO_HIGH = (
    "the level is too high for these intervals: the largest of all draws are their ends, which are too near; "
    f"take a level of at most 0.999 ({PAGE})"
)
COMPOSITE = (
    "each report is counted in several cells: the counts have no likelihood of whole reports, so the "
    f"distribution has no intervals; take another mechanism to have them ({PAGE})"
)
TOO_LARGE = (
    "the reports are of too many kinds for a matrix: so the distribution has no intervals; take a mechanism "
    f"with fewer kinds of reports to have them ({PAGE})"
)
FEW_REPORTS = (
    "the reports do not tell the categories apart: every share may be as large as any other one, and the "
    f"largest estimates may be noise; collect more reports, or take a larger epsilon ({PAGE})"
)
RARE = (
    "{share} of the keys are too rare: their means are not bounded on both sides; collect more reports, or "
    f"ask about fewer keys ({PAGE})"
)
LATER_ROUND = (
    "the reports are of a later round: the sign of a missing key is no fair coin there, so nothing has "
    f"intervals; take the first round's ({PAGE})"
)
OUTSIDE = (
    "the estimate lies outside of its own interval: the bias of {estimator} is larger than the noise, or the "
    f"interval is one of the few that miss; take the interval ({PAGE})"
)
MANY_OUTSIDE = (
    "{share} of the estimates lie outside of their own intervals: the bias of {estimator} is larger than the "
    f"noise; take the intervals ({PAGE})"
)
_FALSE = "the truth may lie outside of every interval; find them before you use the number"
MISFIT = (
    "reports to {services} do not fit its mechanism and epsilon: some are false, or of another epsilon, and "
    f"{_FALSE} ({PAGE})"
)
MISFIT_TAILS = (
    "reports to {services} lie further beyond the ends of the domain, or less far, than noise puts them: "
    f"some are false, or of another epsilon or domain, and {_FALSE} ({PAGE})"
)
MISFIT_USERS = (
    "the reports of the same users to {services} do not go together: some are false, or other people's, and "
    f"{_FALSE} ({PAGE})"
)
REFUSED_PAYLOADS = (
    "{share} of the payloads of {service} were refused: which ones depends on their noise, so the others are "
    f"biased, and {_FALSE} ({PAGE})"
)


def joined(flags: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Flags by what they are of, with some more behind them."""
    return {
        **flags,
        **{name: "; ".join(filter(None, (flags.get(name), text))) for name, text in more.items()},
    }
