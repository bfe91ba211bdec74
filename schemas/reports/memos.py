"""The permanent answers of a study's clients: what the pseudo-random function of a device key is of."""

from __future__ import annotations

from ldpbeam.attributes import Attribute
from ldpbeam.memoised import Memo
from ldpbeam.schemas.reports.stamps import domain_hash
from ldpbeam.study import Study


def memo_of(study: Study, attribute: Attribute, index: int) -> Memo:
    """The memo of ``attribute.versions[index]``, whose clients remember their noise."""
    version = attribute.versions[index]
    assert version.lifetime is not None
    domain = domain_hash(attribute.domain)
    return Memo(study.name, attribute.name, version.service, version.version, domain, version.lifetime)
