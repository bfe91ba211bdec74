"""Intervals that hold if people are spread smoothly: the model's, widened until they keep their level."""

from __future__ import annotations

import numpy as np

from ldpbeam.domains import Floats

#: An end lies WIDER times as far from the middle as the model's end, and then moves OF_THE_WAY towards the
#: end of the certain interval, which is wide if reports cannot tell people apart.
WIDER, OF_THE_WAY = 1.2, 1.0 / 7.0
#: The same factor where there is no certain interval, and for means of joined services, which gaps and spikes
#: hardly move; their ends then stay where they are.
WIDER_ALONE, WIDER_MEAN = 1.5, 1.25


def if_smooth(
    model: Floats, middle: Floats, certain: Floats | None = None, *, joined_mean: bool = False
) -> Floats:
    """The intervals of numbers if people are spread smoothly, shape (numbers, 2).

    Args:
        model: the ends of each number's interval under the model's densities, shape (numbers, 2).
        middle: the median of the model's draws of each number, shape (numbers,).
        certain: the certain interval of each number, shape (numbers, 2), which the result never leaves; None
            if there are none.
        joined_mean: whether the numbers are means of joined services.
    """
    if certain is None:
        return np.asarray(middle[:, None] + WIDER_ALONE * (model - middle[:, None]))
    low, high = certain[:, :1], certain[:, 1:]
    wider, of_the_way = (WIDER_MEAN, 0.0) if joined_mean else (WIDER, OF_THE_WAY)
    ends = np.clip(middle[:, None] + wider * (model - middle[:, None]), low, high)
    # Reports that exclude the middle contradict the model.
    refuted = (middle[:, None] < low) | (middle[:, None] > high)
    return np.where(refuted, certain, ends + of_the_way * (certain - ends))
