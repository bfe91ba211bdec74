"""Does a histogram fit in which each report counts in several slots, as in a unary encoding?

Reports of different people are independent, but the counts of one report are not, so there is no simple
likelihood of the counts. The test uses what is certain: each count lies between those of nobody and of
everybody, and the counts of all slots have a known sum.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betainc, ndtr

from ldpbeam.channels import SlotChannel
from ldpbeam.domains import Floats


def slots_p_value(slots: SlotChannel, counts: Floats, reports: int) -> float:
    """An upper bound of the probability of such counts, if the mechanism is as claimed.

    Args:
        slots: the slots of the mechanism.
        counts: the count of each outcome of each slot, shape (size * outcomes,).
        reports: the number of reports, above zero.
    """
    table = counts.reshape(slots.size, -1)
    rows = np.column_stack((slots.own, slots.other))
    # A count may lie outside both expectations: if nobody has the key, and if everybody has.
    low, high = rows.min(axis=1), rows.max(axis=1)
    # The probabilities of at most and of at least each count; scipy.stats takes a second to import.
    below = np.where(table < reports, betainc(np.maximum(reports - table, 1.0), table + 1.0, 1.0 - low), 1.0)
    above = np.where(table > 0.0, betainc(np.maximum(table, 1.0), reports - table + 1.0, high), 1.0)
    of_cells = min(1.0, 2.0 * table.size * float(min(below.min(), above.min())))
    return min(1.0, 2.0 * min(of_cells, _sum_p_value(slots, float(table[:, 1:].sum()) / reports, reports)))


def _sum_p_value(slots: SlotChannel, mean: float, reports: int) -> float:
    """The p-value of the mean number of slots that are present or set.

    Given the value, the slots of one report are independent, or at least pairwise.
    """
    present = 1.0 - slots.own[0]
    others = 1.0 - float(slots.other[0])
    if slots.dummies:
        present = np.append(present, others)
    means = present + (slots.size - 1) * others
    low, high = float(means.min()), float(means.max())
    variance = float((present * (1.0 - present)).max()) + (slots.size - 1) * others * (1.0 - others)
    variance += 0.25 * (high - low) ** 2
    beyond = max(low - mean, mean - high)
    return float(2.0 * ndtr(-beyond * np.sqrt(reports / variance))) if beyond > 0.0 else 1.0
