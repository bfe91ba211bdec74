"""Reads lines of ``estimates.jsonl`` that earlier versions wrote.

Until version 6 of the tables, the interval of a number was stored under the number alone, came from the
model, and held only if people are spread smoothly. Certain intervals of quantiles, ranges and the
distribution function were stored in ``strict``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_OF_SUMS = "unbiased"
_BOUNDED = ("quantiles", "ranges", "cdf")


def as_today(line: bytes) -> bytes:
    """A line as this version writes it; a line that is not an estimate stays as it is.

    Lines of this version are recognised by their text, because parsing each line twice takes time.
    """
    if b'"ends": {' in line or b'"intervals": {' not in line:
        return line
    try:
        fields = json.loads(line)
        return json.dumps(_newer(fields, fields["intervals"])).encode()
    except (ValueError, KeyError, TypeError, AttributeError):
        return line


def _newer(line: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    methods, flags, strict = (old.get(name) or {} for name in ("methods", "flags", "strict"))
    looks, certain, smooth = old.get("any_look") or {}, dict[str, Any](), dict[str, Any]()
    for name in ("mean", "variance", "frequencies", "key_means", "distribution", *_BOUNDED):
        if old.get(name) is not None:
            of_sums = name in ("frequencies", "key_means") or methods.get(name, "").startswith(_OF_SUMS)
            (certain if of_sums else smooth)[name] = _ends(old[name])
    certain |= {name: _ends(strict[name]) for name in _BOUNDED if strict.get(name)}
    ends = {"certain": certain, "if_smooth": smooth}
    ends["any_look"] = {name: _ends(looks[name]) for name in ("mean", "frequencies") if looks.get(name)}
    top = line.get("top") or [{}]
    if top[0].get("low") is not None:
        ends["largest"] = {"frequencies": {end: [name[end] for name in top] for end in ("low", "high")}}
    said = {
        "certain": flags.get("strict") or next((flags[name] for name in certain if name in flags), ""),
        "if_smooth": "; ".join(dict.fromkeys(flags[name] for name in smooth if name in flags)),
    }
    intervals = {
        "level": old.get("level"),
        "simultaneous": old.get("simultaneous", False),
        "ends": {condition: parts for condition, parts in ends.items() if parts},
        "at": (strict.get("cdf") or old.get("cdf") or {}).get("at", []),
        "narrowest": looks.get("reports"),
        "methods": methods,
        "flags": {condition: text for condition, text in said.items() if text},
    }
    return {**line, "intervals": intervals}


def _ends(old: Mapping[str, Any]) -> dict[str, list[float]]:
    """The ends of one number, of many, or of quantiles by their level."""
    if "low" not in old:
        return {end: [of_level[end] for of_level in old.values()] for end in ("low", "high")}
    low, high = old["low"], old["high"]
    return {"low": low, "high": high} if isinstance(low, list) else {"low": [low], "high": [high]}
