"""The figures of one attribute."""

from __future__ import annotations

from collections.abc import Mapping

from ldpbeam.answers.truth import Truth
from ldpbeam.charts.figures import Figure
from ldpbeam.charts.names import frequencies, key_means, means
from ldpbeam.charts.numbers import certain_shares, distributions
from ldpbeam.charts.over_time import means_over_time, shares_over_time
from ldpbeam.charts.pairs import given, table
from ldpbeam.charts.subject import Subject, Subset


def figures_of(subject: Subject, truths: Mapping[Subset, Truth] | None = None) -> list[Figure]:
    """The figures of an attribute, as far as its estimates have what they show."""
    truths = truths or {}
    drawn = (
        means_over_time(subject, truths),
        shares_over_time(subject),
        distributions(subject, truths),
        certain_shares(subject, truths),
        frequencies(subject, truths),
        key_means(subject, truths),
        means(subject, truths),
        table(subject),
        given(subject),
    )
    return [figure for figure in drawn if figure is not None]
