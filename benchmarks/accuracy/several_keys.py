"""PCKV-PM where people have several keys: frequencies of the key step, and of one likelihood with values."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.accuracy.key_values import RANGE, truth_of
from benchmarks.accuracy.trials import asked, collected, header, row, summary
from ldpbeam import Attribute, Statistic
from ldpbeam.domains import Floats, KeyValuePairs, KeyValues
from ldpbeam.estimators import estimate
from ldpbeam.estimators.em import fit_channel
from ldpbeam.estimators.iteration import Trace
from ldpbeam.mechanisms import PCKVPM

KEYS, PADDING, BUCKETS, SEEDS = 8, 3, 32, range(6)
#: How much likelier a key is, and the mean of its values on [0, 1].
ATTRACTION = np.linspace(0.5, 0.0, KEYS)
CENTRES = np.array([0.78, 0.5, 0.2, 0.65, 0.9, 0.05, 0.55, 0.75])
CELLS = ((1.0, 6_000), (1.0, 50_000), (4.0, 6_000))
ONE, STEPS, OWN = "one likelihood (before)", "pckv_em", "key_value"


def people_of_several(people: int, rng: np.random.Generator) -> KeyValuePairs:
    """People of one to three keys, whose values are normal around the key's mean."""
    many = rng.integers(1, PADDING + 1, people)
    order = np.argsort(rng.random((people, KEYS)) - ATTRACTION, axis=1)
    person, place = np.nonzero(np.arange(KEYS) < many[:, None])
    keys = order[person, place]
    keys = keys[np.lexsort((keys, person))]
    values = np.clip(rng.normal(CENTRES[keys], 0.1), 0.0, 1.0)
    return KeyValuePairs(np.concatenate(([0], np.cumsum(many))), keys, values)


def in_one(attribute: Attribute, statistic: Statistic) -> tuple[Floats, Floats]:
    """(frequencies, means) of the likelihood of key step and values in one, as ``pckv_em`` had it before."""
    mechanism = attribute.versions[0].mechanism
    assert isinstance(mechanism, PCKVPM)
    fit = fit_channel(
        attribute.channel(0),
        statistic.histograms[0],
        smoothing=False,
        tolerance=1e-3,
        trace=Trace(10_000),
        accelerated=True,
    )
    frequencies, means = mechanism.key_values_of(fit.weights)
    return frequencies, RANGE.from_unit(means)


def measured(epsilon: float, people: int) -> dict[str, Floats]:
    """(bias of frequencies, MSE of frequencies, MSE of means) by method, shape (seeds, 3)."""
    domain = KeyValues(tuple(map(str, range(KEYS))), RANGE)
    attribute = asked(domain, BUCKETS, {"one": ("pckv_pm", epsilon, {"padding": PADDING})})
    found: dict[str, list[list[float]]] = {ONE: [], STEPS: [], OWN: []}
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        population = people_of_several(people, rng)
        truth, means = truth_of(population, KEYS)
        statistic = collected(attribute, population, rng)
        answers = {ONE: in_one(attribute, statistic)}
        for name in (STEPS, OWN):
            answer = estimate(name, attribute, statistic)
            assert answer.frequencies is not None
            assert answer.key_means is not None
            answers[name] = answer.frequencies, answer.key_means
        for name, (frequencies, own) in answers.items():
            off = frequencies - truth
            losses = off.mean(), np.mean(off**2), np.mean((own - means) ** 2)
            found[name].append(list(map(float, losses)))
    return {name: np.array(rows) for name, rows in found.items()}


def tables() -> Iterator[str]:
    """The section, line by line."""
    yield f"## Keys with values: PCKV-PM, {KEYS} keys, one to {PADDING} a person, seeds 0 to {len(SEEDS) - 1}"
    yield ""
    yield f"Padding {PADDING}, {BUCKETS} buckets. The bias is the mean over keys of the frequencies less the"
    yield "people's own. Before, `pckv_em` had one likelihood of key step and values, in which noise of a"
    yield "key's histogram counts as people with the key."
    yield ""
    yield from header(["epsilon", "n", "method", "bias of f", "MSE of f (10^-4)", "MSE of the mean"])
    for epsilon, people in CELLS:
        for name, errors in measured(epsilon, people).items():
            bias, frequencies, means = errors.T
            shown = [summary(bias, "z.4f"), summary(frequencies, ".2f", 1e4), summary(means, ".4f")]
            yield row([epsilon, f"{people:,}", name, *shown])
