"""Records of ``estimates.avro`` as ``estimates.jsonl`` has them, by the text of the schema alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def as_line(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with mappings in place of lists of pairs, parsed details, and no version."""
    line = {name: value for name, value in record.items() if name != "schema_version"}
    line["details"] = json.loads(line["details"])
    if line["quantiles"] is not None:
        line["quantiles"] = {own["level"]: own["value"] for own in line["quantiles"]}
    if line["intervals"] is not None:
        found = dict(line["intervals"])
        if found["quantiles"] is not None:
            found["quantiles"] = {
                own["level"]: {"low": own["low"], "high": own["high"]} for own in found["quantiles"]
            }
        found["methods"] = {own["of"]: own["method"] for own in found["methods"]}
        found["flags"] = {own["of"]: own["flag"] for own in found["flags"]}
        line["intervals"] = found
    return line
