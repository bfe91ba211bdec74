"""What a client must know about a study, as JSON: the input of ``fromStudy`` in the JavaScript client."""

from __future__ import annotations

import json
from typing import Any

from ldpbeam.attributes import Attribute, ServiceVersion
from ldpbeam.domains import Candidates
from ldpbeam.mechanisms.mechanism_options import options_of
from ldpbeam.study import Study


def described_clients(study: Study) -> list[dict[str, Any]]:
    """The clients of each service, or of each version of it, in the study's order.

    Each has the names of the ``study``, ``attribute``, ``service`` and ``version``; the ``mechanism``,
    ``epsilon``, ``options`` and ``domain``, and what clients remember, as in a study; ``users``, which is
    ``none`` if reports have no user id; the ``fields`` that are the same in all their reports, and the names
    of further ones that each report ``needs``. Clients of names that change from window to window are
    left out: they need the window's file.
    """
    written = json.loads(study.text)["attributes"]
    return [
        {
            "study": study.name,
            "attribute": attribute.name,
            "service": version.service,
            **({"version": version.version} if version.version else {}),
            "mechanism": version.named.name,
            "epsilon": version.named.epsilon,
            "options": {k: v for k, v in version.parameters.items() if k in options_of(type(version.named))},
            **({} if version.lifetime is None else version.lifetime.options),
            "domain": written[attribute.name]["domain"],
            "users": "ids" if attribute.has_users else "none",
            **_fields(study, attribute, version),
        }
        for attribute in map(study.attribute, study.attributes)
        if not isinstance(attribute.domain, Candidates)
        for version in attribute.versions
    ]


def _fields(study: Study, attribute: Attribute, version: ServiceVersion) -> dict[str, Any]:
    """The fields of a report that are always the same, and the names of those that its program gives."""
    recognised = study.attributes[attribute.name].services[version.service].versions.get(version.version)
    values_of = {} if recognised is None else recognised.fields
    same = {name: values[0] for name, values in values_of.items() if len(values) == 1}
    needs = ["event_time"] if study.windows or (recognised is not None and not values_of) else []
    needs += [study.groups.field] if study.groups else []
    return {
        "fields": {"attribute": attribute.name, "service": version.service, **same},
        "needs": needs + [name for name in values_of if name not in same],
    }
