"""Intervals that hold if people are spread smoothly: the model's, widened until they keep their level."""

from __future__ import annotations

import numpy as np

from ldpbeam.domains import Floats

#: An end lies WIDER times as far from the middle as the model's, and then OF_THE_WAY from there to the end of
#: the certain interval, which is wide where reports cannot tell people apart.
WIDER, OF_THE_WAY = 1.2, 1.0 / 7.0
#: The same factor where there is no certain interval.
WIDER_ALONE = 1.5


def if_smooth(model: Floats, middle: Floats, certain: Floats | None = None) -> Floats:
    """The intervals of numbers if people are spread smoothly, shape (numbers, 2).

    Args:
        model: the ends of the interval of each number that the densities of the model give, shape
            (numbers, 2).
        middle: the number that half of the draws of the model are below, shape (numbers,).
        certain: the certain interval of each number, which no interval leaves; shape (numbers, 2). None where
            there are none.
    """
    if certain is None:
        return np.asarray(middle[:, None] + WIDER_ALONE * (model - middle[:, None]))
    low, high = certain[:, :1], certain[:, 1:]
    ends = np.clip(middle[:, None] + WIDER * (model - middle[:, None]), low, high)
    # Reports that exclude the middle contradict the model.
    refuted = (middle[:, None] < low) | (middle[:, None] > high)
    return np.where(refuted, certain, ends + OF_THE_WAY * (certain - ends))
