"""Intervals that hold if people are spread smoothly: the model's, widened until they keep their level."""

from __future__ import annotations

import numpy as np

from ldpbeam.domains import Floats

#: An end lies WIDER times as far from the middle as the model's end, and then moves OF_THE_WAY towards the
#: end of the certain interval, which is wide if reports cannot tell people apart.
WIDER, OF_THE_WAY = 1.2, 1.0 / 7.0
#: The same factor where there is no certain interval.
WIDER_ALONE = 1.5


def if_smooth(model: Floats, middle: Floats, certain: Floats | None = None) -> Floats:
    """The intervals of numbers if people are spread smoothly, shape (numbers, 2).

    Args:
        model: the ends of each number's interval under the model's densities, shape (numbers, 2).
        middle: the median of the model's draws of each number, shape (numbers,).
        certain: the certain interval of each number, shape (numbers, 2), which the result never leaves; None
            if there are none.
    """
    if certain is None:
        return np.asarray(middle[:, None] + WIDER_ALONE * (model - middle[:, None]))
    low, high = certain[:, :1], certain[:, 1:]
    ends = np.clip(middle[:, None] + WIDER * (model - middle[:, None]), low, high)
    # Reports that exclude the middle contradict the model.
    refuted = (middle[:, None] < low) | (middle[:, None] > high)
    return np.where(refuted, certain, ends + OF_THE_WAY * (certain - ends))
