"""The registry of estimators, and packages that add to it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest
from support.registries import fresh

from ldpbeam import Answers, Attribute, Categories, ServiceVersion, plugins, registered_estimators, tally
from ldpbeam.errors import UserError
from ldpbeam.estimators import Estimate, Estimator, Question, Share, check, estimate, register
from ldpbeam.estimators.em import check_em
from ldpbeam.mechanisms import RandomisedResponse
from ldpbeam.runners.wheels import PLUGIN_GROUPS

COLOURS = Attribute(
    "colour", Categories(("red", "green")), 2, (ServiceVersion("app", "", RandomisedResponse(1.0, size=2)),)
)


def blended(question: Question, *, evenly: Share = 0.5) -> Estimate:
    """As another package would ship it: the counts themselves, blended with even shares."""
    counts = question.statistic.histograms[question.versions[0]]
    shares = (1 - evenly) * counts / counts.sum() + evenly / len(counts)
    return question.answer_distribution("blended", shares)


BLENDED = Estimator("blended", "counts, blended with even shares", blended, check_em)


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The registry's module, its contents put back afterwards."""
    module = importlib.import_module("ldpbeam.estimators.registry")
    monkeypatch.setattr(module, "_REGISTRY", fresh(module._REGISTRY))
    return module


@pytest.fixture
def shipped(registry: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Callable[[object], None]:
    """Makes an installed package of what its entry point names."""

    def ship(named: object) -> None:
        class EntryPoint:
            name, value, dist = "blended", "blending:BLENDED", None

            def load(self) -> object:
                return named

        def entry_points(*, group: str) -> list[EntryPoint]:
            assert group == "ldpbeam.estimators"
            return [EntryPoint()]

        monkeypatch.setattr(plugins, "entry_points", entry_points)

    return ship


def test_our_estimators_are_registered_under_their_own_names() -> None:
    known = registered_estimators()
    assert list(known)[:5] == ["auto", "em", "ems", "ule", "mr"]
    for name, estimator in known.items():
        assert estimator.name == name
        assert estimator.summary


def test_changing_the_returned_table_changes_nothing() -> None:
    registered_estimators().clear()
    assert registered_estimators()


def test_two_estimators_of_one_name_are_refused(registry: ModuleType) -> None:
    register(BLENDED)
    with pytest.raises(ValueError, match="two estimators are called 'blended'"):
        register(BLENDED)


def test_what_a_notebook_registers_again_takes_the_place_of_what_it_registered(
    registry: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blended, "__module__", "__main__")
    register(BLENDED)
    again = Estimator("blended", "another", blended, check_em)
    register(again)
    assert registered_estimators()["blended"] is again


def test_a_package_can_ship_an_estimator(shipped: Callable[[object], None]) -> None:
    shipped(BLENDED)
    assert list(registered_estimators())[-1] == "blended"
    statistic = tally(COLOURS, 4, [Answers(0, np.arange(4), np.array([0, 0, 0, 1]))])
    found = estimate("blended", COLOURS, statistic, options={"evenly": 0.2})
    np.testing.assert_allclose(found.distribution, [0.8 * 0.75 + 0.1, 0.8 * 0.25 + 0.1])
    with pytest.raises(ValueError, match="'blended' has no option 'even'; it takes: evenly"):
        check("blended", COLOURS, ["app"], {"even": 0.2})
    with pytest.raises(ValueError, match="option 'evenly' is a number above 0 and at most 1, found 0"):
        check("blended", COLOURS, ["app"], {"evenly": 0})


def test_a_package_that_registers_its_estimator_itself_may_name_it_too(
    shipped: Callable[[object], None],
) -> None:
    register(BLENDED)
    shipped(BLENDED)
    assert registered_estimators()["blended"] is BLENDED


@pytest.mark.parametrize(
    ("named", "problem"),
    [
        (blended, "TypeError: .* is not an Estimator"),
        (Estimator("em", "another", blended, check_em), "ValueError: two estimators are called 'em'"),
    ],
)
def test_what_is_no_estimator_is_refused_with_the_name_of_its_package(
    shipped: Callable[[object], None], named: object, problem: str
) -> None:
    shipped(named)
    sentence = f"installed package blending:BLENDED cannot be used \\({problem}\\); repair or uninstall"
    with pytest.raises(UserError, match=f"^the estimator 'blended' of the {sentence}"):
        registered_estimators()


def test_workers_get_the_packages_of_every_registry() -> None:
    registries = ("ldpbeam.mechanisms.registry", "ldpbeam.estimators.registry")
    groups = [f"ldpbeam.{importlib.import_module(name)._REGISTRY.kind}s" for name in registries]
    assert sorted(PLUGIN_GROUPS) == sorted(groups)
