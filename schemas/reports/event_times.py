"""Which event times are plausible, and the probable mistake in the others.

An event time is in milliseconds since 1970. A time in another unit is far from the present: seconds give
January 1970, microseconds and nanoseconds give years after 50,000.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: The first milliseconds of 1900, 1990 and 2200.
YEAR_1900, YEAR_1990, YEAR_2200 = -2_208_988_800_000, 631_152_000_000, 7_258_118_400_000
#: In place of times that cannot be told from those a minute before or after. No time is further from 1970, so
#: that the difference of two fits in 64 bits.
COARSE = -(2**61)
#: How many milliseconds each other unit has.
_UNITS = {"seconds": 1e3, "microseconds": 1e-3, "nanoseconds": 1e-6}
#: The problems of event times: the reason of the dead letter, and the detail. The first is no problem where
#: old times are expected.
PROBLEMS = (
    ("event_time_before_1990", "before 1990; estimate takes such times only with a --from before 1990"),
    ("event_time_out_of_bounds", "outside the years 1900 to 2199"),
    *(
        (
            f"event_time_looks_like_{unit}",
            f"looks like {unit}; write milliseconds since 1970-01-01T00:00:00Z, or RFC 3339 text with a zone",
        )
        for unit in _UNITS
    ),
    (
        "event_time_too_coarse",
        "a float of 16 or 32 bits, whose steps are minutes; write 64 bits, or RFC 3339 text with a zone",
    ),
)
BEFORE_1990, OUT_OF_BOUNDS, TOO_COARSE = 1, 2, len(PROBLEMS)


def problems(times: NDArray[np.int64], *, old: bool = False) -> NDArray[np.int8]:
    """The problem of each event time, shape (n,): 1 + its index in :data:`PROBLEMS`, 0 for a plausible time.

    Args:
        times: in milliseconds since 1970, shape (n,).
        old: whether times from 1900 to 1989 are plausible.
    """
    codes = np.zeros(len(times), dtype=np.int8)
    suspects = np.flatnonzero((times < (YEAR_1900 if old else YEAR_1990)) | (times >= YEAR_2200))
    if len(suspects):
        suspected = times[suspects]
        codes[suspects] = np.where(
            (suspected < YEAR_1900) | (suspected >= YEAR_2200), OUT_OF_BOUNDS, BEFORE_1990
        )
        for code, milliseconds in enumerate(_UNITS.values(), OUT_OF_BOUNDS + 1):
            meant = suspected * milliseconds
            codes[suspects[(meant >= YEAR_1990) & (meant < YEAR_2200)]] = code
        codes[suspects[suspected == COARSE]] = TOO_COARSE
    return codes
