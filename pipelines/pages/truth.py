"""True values of people, as an estimate of them would be without noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ldpbeam.domains import Floats, KeyValuePairs, KeyValues, Numeric
from ldpbeam.pipelines.estimates.truth import coordinate_of, people_of, truth_of_keys
from ldpbeam.pipelines.pages.subject import Place, Subject
from ldpbeam.pipelines.simulated.people import People
from ldpbeam.study import Study
from ldpbeam.windows import Bounds


@dataclass(frozen=True)
class Truth:
    """The true values of the people of a window and group.

    Attributes:
        people: how many they are.
        mean: their mean; None for categories and keys.
        shares: the share of people in each value bucket, of each category, or who have each key.
        key_means: the mean value of each key, NaN for a key that nobody has; None but for keys.
    """

    people: int
    mean: float | None
    shares: Floats | None
    key_means: Floats | None = None


def truths_of(study: Study, subject: Subject, people: People) -> Mapping[Place, Truth]:
    """The truth of each window and group of an attribute that somebody in the file is of."""
    truths = {}
    for place, records in subject.places.items():
        truth = None if place.other_groups else _truth(study, subject.name, place, records[0].window, people)
        if truth is not None:
            truths[place] = truth
    return truths


def _truth(study: Study, name: str, place: Place, window: Bounds | None, people: People) -> Truth | None:
    chosen = people_of(window, place.group, study, people)
    count = int(chosen.sum())
    if not count:
        return None
    attribute = study.attribute(name)
    domain = attribute.domain
    if isinstance(people.values, KeyValuePairs):
        assert isinstance(domain, KeyValues)
        shares, owned, means = truth_of_keys(domain, people.values.chosen(np.flatnonzero(chosen)))
        of_all = np.full(len(shares), np.nan)
        of_all[owned] = means
        return Truth(count, None, shares, of_all)
    values = people.values[chosen]
    if values.ndim == 2:
        values = values[:, coordinate_of(study, name)]
    if isinstance(domain, Numeric):
        shares = domain.histogram(values, attribute.buckets) / count
        return Truth(count, float(values.mean()), shares)
    return Truth(count, None, np.bincount(values, minlength=attribute.value_buckets) / count)
