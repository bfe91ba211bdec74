"""An entry for registries of deployments: what a study says of its privacy."""

from __future__ import annotations

from typing import Any

import pytest

import ldpbeam as ldp
from ldpbeam.answers.registry_entry import registry_entry

GRR = {"mechanism": "grr", "epsilon": 1.0}
DRINK = {"domain": {"categories": ["tea", "water"]}, "services": {"a": GRR, "b": {**GRR, "epsilon": 2.0}}}
REMEMBERED = {**GRR, "lifetime_epsilon": 4.0, "values_at_most": 1}
REMEMBERS = {"domain": DRINK["domain"], "services": {"a": REMEMBERED}}
MONTH = {"windows": {"size": "1d"}, "ledger": {"period": "30d"}}


@pytest.mark.parametrize(
    ("keys", "unit", "expected"),
    [
        ({"users": "none"}, "one report", {"report": 2.0}),
        ({}, "one user", {"report": 2.0, "user": 3.0}),
        (MONTH, "one user", {"report": 2.0, "user_in_a_window": 3.0, "user_in_30d": 90.0}),
        (
            {**MONTH, "panel": {"windows": 10}},
            "one user",
            {"report": 2.0, "user_in_a_window": 3.0, "user_in_30d": 9.0},
        ),
        (
            {**MONTH, "attributes": {"drink": REMEMBERS}},
            "one user",
            {"report": 1.0, "user_in_a_window": 1.0, "user_in_30d": 4.0},
        ),
    ],
)
def test_the_epsilons_are_of_a_report_a_user_and_a_period(
    keys: dict[str, Any], unit: str, expected: dict[str, float]
) -> None:
    entry = registry_entry(ldp.Study.from_dict({"study": "s", "attributes": {"drink": DRINK}, **keys}))
    loss = entry["deployment"]["privacy_loss"]
    assert loss["privacy_unit"] == unit
    assert loss["privacy_parameters"] == {"epsilon": [*expected.values()][-1]}
    assert loss["privacy_parameters_details"] == {f"epsilon_of_a_{key}": e for key, e in expected.items()}
    assert entry["deployment"]["dp_variant"]["variant_name"] == "Pure DP"
