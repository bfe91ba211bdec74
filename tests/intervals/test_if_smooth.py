"""The rule by which the model's interval becomes one that holds if people are spread smoothly."""

from __future__ import annotations

import numpy as np
import pytest

from ldpbeam.intervals.if_smooth import if_smooth

MODEL, MIDDLE = np.array([[0.4, 0.5]]), np.array([0.44])


@pytest.mark.parametrize(
    ("certain", "expected"),
    [
        # A fifth wider, and then a seventh of the way to the certain one.
        ((0.0, 1.0), (0.392 * 6 / 7, 0.512 + 0.488 / 7)),
        # Never beyond the certain one.
        ((0.395, 0.49), (0.395, 0.49)),
        # Reports that exclude the middle exclude the model.
        ((0.45, 0.9), (0.45, 0.9)),
    ],
)
def test_it_is_the_models_widened_and_part_of_the_way_to_the_certain_one(
    certain: tuple[float, float], expected: tuple[float, float]
) -> None:
    np.testing.assert_allclose(if_smooth(MODEL, MIDDLE, np.array([certain])), [expected])


def test_without_a_certain_one_it_is_half_again_as_wide() -> None:
    np.testing.assert_allclose(if_smooth(MODEL, MIDDLE), [[0.38, 0.53]])
