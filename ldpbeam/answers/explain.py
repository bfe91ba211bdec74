"""A run in sentences, each of which belongs to the part that it describes."""

from __future__ import annotations

from collections.abc import Iterator

from ldpbeam import fit, statistics
from ldpbeam.answers import ledger, periods, published
from ldpbeam.answers.costs import slow_parts
from ldpbeam.attributes import Attribute, ServiceVersion
from ldpbeam.domains import OTHERS, Categories, Numeric, Vector
from ldpbeam.estimators import registered_estimators
from ldpbeam.intervals import computing
from ldpbeam.mechanisms import CategoricalMechanism, SubsetSelection
from ldpbeam.mechanisms.categories.subset_selection import saving
from ldpbeam.memoised import Lifetime, panels, steps_of
from ldpbeam.over_time.remembered_noise import FEWEST_USERS
from ldpbeam.schemas.study.users import joined_counts
from ldpbeam.study import Study, StudyAttribute, attribute_of
from ldpbeam.times import UNITS
from ldpbeam.transforms.joining import kept, pairs
from ldpbeam.transforms.windows import cut, groups
from ldpbeam.words import counted

#: What a run does with its tests.
_OF_TESTS = (
    "`ldpbeam estimate` and `ldpbeam rollup` write all tests to fit.json and warn of those that fail; if "
    f"all claims of the study are true, at most {fit.FALSE_ALARMS:.0%} of runs warn. `ldpbeam stream` tests "
    f"each pane, and at most {fit.FALSE_ALARMS:.0%} of streams ever warn."
)

#: Subset selection is named where shares have so much less variance with it, as a part.
CLEARLY_LESS = 0.05


def explain(study: Study) -> list[str]:
    """The sentences, in the order data passes."""
    sentences = [
        f"Study {study.name!r} estimates {counted(len(study.attributes), 'attribute')}: "
        f"{', '.join(study.attributes)}."
    ]
    for name, described in study.attributes.items():
        sentences += _collection(study.attribute(name), described)
    sentences.append(cut.explain(study.windows))
    if study.local is not None:
        sentences.append(
            f"An event time without a zone is read as local time in {study.local.zone}; a time that occurs "
            "twice or never there is refused."
        )
        windows = study.windows
        if windows is not None and windows.clock is None and windows.size % UNITS["d"] == 0:
            sentences.append(
                f"Days of windows are those of UTC, unless windows has zone: {study.local.zone}."
            )
    if study.panel is not None:
        sentences.append(panels.explain(study.panel))
    sentences += kept.explain(study)
    if study.groups:
        sentences.append(groups.explain(study.groups))
    if study.publish.at_least > 1 or study.windows:
        sentences.append(published.explain(study))
    for name, described in study.attributes.items():
        estimated = [
            estimated_name for estimated_name in study.estimated if attribute_of(estimated_name) == name
        ]
        if isinstance(study.attribute(name).domain, Vector):
            sentences.append(pairs.explain(name, estimated))
        # The coordinates of a vector differ only in their names, so the first one stands for all.
        first = study.attribute(estimated[0])
        sentences += statistics.explain(first)
        if study.windows_joined > 1:
            sentences.append(
                f"The statistic of joined windows adds {joined_counts(first, study.windows_joined):,} "
                "integers. With few users they reveal what each one sent, so only their owner may read "
                "these files."
            )
            if isinstance(first.domain, Categories):
                sentences.append(
                    f"Tests say whether the clients of {name!r} remember their noise if the study says so, "
                    f"and only then, if {FEWEST_USERS} or more users have several reports in a joined window."
                )
            else:
                sentences.append(
                    f"Not tested: whether the clients of {name!r} remember their noise; only categories "
                    "are tested for that."
                )
        sentences += _estimates(first, described)
        sentences += fit.explain(first)
    for name in filter(study.is_pair, study.compiled):
        first, second = study.attribute(name).sides
        sentences.append(
            f"Pair {name!r}: the reports of a user to {first.name!r} and {second.name!r} are joined; users "
            "with reports to only one of them are left out."
        )
    sentences.append(_OF_TESTS)
    sentences += slow_parts(study)
    sentences += ledger.explain(study)
    sentences += periods.explain(study)
    return sentences


def _collection(attribute: Attribute, described: StudyAttribute) -> Iterator[str]:
    yield f"{attribute.name!r} is {attribute.domain.explain(attribute.value_buckets)}."
    if described.candidates is not None:
        yield (
            f"The names of the places of {attribute.name!r} are looked up in {described.candidates} when a "
            f"window is estimated. Places without a name are estimated together as {OTHERS!r}; a window in "
            "which no place has a name is not estimated, but its statistics are written."
        )
    for version in attribute.versions:
        recognised = described.services[version.service].recognised_by(version.version)
        yield (f"Service {version.label!r} of {attribute.name!r} runs {version.explain()}{recognised}.")
        yield from less_noise(version)
        if version.lifetime is not None:
            yield from _remembered(attribute, version.label, version.lifetime)


def less_noise(version: ServiceVersion) -> Iterator[str]:
    """A sentence if shares would have clearly less noise with subset selection."""
    mechanism = version.mechanism
    if not isinstance(mechanism, CategoricalMechanism) or version.lifetime is not None:
        return
    if mechanism.support_probabilities is not None and (saved := saving(mechanism)) >= CLEARLY_LESS:
        yield (
            f"To service {version.label!r}: shares would have {saved:.0%} less variance with "
            f"`mechanism: {SubsetSelection.name}`."
        )


def _remembered(attribute: Attribute, label: str, lifetime: Lifetime) -> Iterator[str]:
    """What clients that remember their noise lose, and how much they round."""
    yield f"To service {label!r}: {lifetime.explain_loss(steps_of(lifetime).loss)}."
    if isinstance(attribute.domain, Numeric) and (rounding := lifetime.explain_rounding(attribute.domain)):
        yield f"To service {label!r}: {rounding}."


def _estimates(attribute: Attribute, described: StudyAttribute) -> Iterator[str]:
    for name, wanted in described.estimates.items():
        estimator = registered_estimators()[wanted.estimator]
        yield (
            f"Estimate {name!r} of {attribute.name!r} is "
            f"{estimator.explain(wanted.services, wanted.options)}."
        )
    yield computing.explain(attribute, next(iter(described.estimates.values())).intervals)
