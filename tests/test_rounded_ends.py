"""Numbers with as many digits as their intervals justify, and ends that are never moved inward."""

from __future__ import annotations

import pytest

from ldpbeam import words


@pytest.mark.parametrize(
    ("ends", "share", "text"),
    [
        ((161.2, 285.0), False, "161 to 285"),
        ((44.523, 45.081), False, "44.52 to 45.09"),
        # 0.29 in hundredths is 28.999999999999996.
        ((0.29, 0.54), False, "0.29 to 0.54"),
        ((0.1038, 0.1312), True, "10.3% to 13.2%"),
        ((-4.251, 0.0), False, "-4.3 to 0.0"),
    ],
)
def test_the_ends_of_an_interval_are_rounded_outward(
    ends: tuple[float, float], share: bool, text: str
) -> None:
    assert words.rounded_ends(ends, share=share) == text


@pytest.mark.parametrize(
    ("value", "ends", "text"),
    [(223.0, (161.0, 285.0), "220"), (44.8449, (44.52, 45.08), "44.84"), (-0.001, (-1.0, 1.0), "0.00")],
)
def test_a_number_is_rounded_to_the_digits_that_its_interval_justifies(
    value: float, ends: tuple[float, float], text: str
) -> None:
    assert words.rounded(value, ends) == text
