"""What readers of the published estimates of a window learn of one user, in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from ldpbeam.amplification import amplified_epsilon, default_delta, together
from ldpbeam.study import Study


def readers(study: Study, name: str, users: int) -> Iterator[str]:
    """What is claimed of an attribute, whose services every user reports to, and what is not.

    Args:
        study: the study.
        name: the attribute.
        users: how many users report in a window.
    """
    attribute = study.attribute(name)
    # The version of each service that spends most stands for its others.
    mechanisms = [
        max(
            (attribute.versions[index].mechanism for index in attribute.versions_of([service])),
            key=attrgetter("epsilon"),
        )
        for service in attribute.services
    ]
    try:
        epsilon, variation = together(mechanisms)
    except ValueError as error:
        yield f"Of what readers of the estimates of {name!r} learn, nothing is claimed: {error}."
        return
    delta = default_delta(users)
    central = amplified_epsilon(delta, epsilon, variation, users)
    where = "of a window" if study.windows else f"of {name!r}"
    yield (
        f"Towards readers of the estimates {where}, who see no report, the epsilon of {epsilon:g} of "
        f"{name!r} becomes ({central:.3g}, {delta:.1g})-differential privacy, if {users:,} honest users "
        "report."
    )
    if attribute.remembering:
        yield (
            f"Windows of {name!r} share noise, so over several of them only what the reports reveal is "
            "claimed (ldpbeam explain)."
        )
