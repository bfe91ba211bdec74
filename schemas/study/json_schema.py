"""The JSON Schema of study files, with which an editor completes, explains and underlines.

The models give what every study has. The mechanisms, the estimators and their options come from the
registries, so that those of other packages are in it too. It says less than ``ldpbeam explain`` checks: what
depends on several values at once (low < high, a mechanism for the domain or the option, a service's name
under ``estimates``) is not in it.
"""

from __future__ import annotations

import json
import types
from collections.abc import Iterable, Mapping
from typing import Any

from ldpbeam.estimators import registered_estimators
from ldpbeam.mechanisms.mechanism import LARGEST_EPSILON, SMALLEST_EPSILON
from ldpbeam.mechanisms.mechanism_options import options_of
from ldpbeam.mechanisms.registry import AUTO, registered_mechanisms
from ldpbeam.memoised import MOST_MEMO_BUCKETS
from ldpbeam.options import Option, Range
from ldpbeam.schemas.study.models import StudyModel
from ldpbeam.schemas.study.parts import NAME, OWN_COLUMNS

Schema = dict[str, Any]

#: The keys of which a domain has one, and what others it then needs.
_DOMAINS = ("numeric", "edges", "categories", "candidates", "keys", "coordinates")
_BESIDE = {"candidates": ["places"], "places": ["candidates"], "keys": ["values"], "coordinates": ["values"]}
_TYPES = {
    list: "array",
    int: "integer",
    float: "number",
    str: "string",
    bool: "boolean",
    types.NoneType: "null",
}
_EPSILON: Schema = {
    "type": "number",
    "exclusiveMinimum": SMALLEST_EPSILON,
    "maximum": LARGEST_EPSILON,
    "description": "the privacy budget of one report",
}
_EPSILON_ENDS = ("exclusiveMinimum", "maximum")


def study_schema() -> Schema:
    """The JSON Schema (draft 2020-12) of study files."""
    schema = StudyModel.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["description"] = "A study of ldpbeam: what is estimated, from whose reports, and how."
    parts: dict[str, Schema] = schema["$defs"]
    attribute = parts["AttributeModel"]["properties"]
    schema["properties"]["study"]["pattern"] = NAME
    for named in (schema["properties"]["attributes"], attribute["services"], attribute["estimates"]):
        named["propertyNames"] = {"pattern": NAME}
    parts["GroupsModel"]["properties"]["field"]["not"] = {"enum": sorted(OWN_COLUMNS)}
    for arm in parts["DomainModel"]["properties"]["coordinates"]["anyOf"]:
        if arm["type"] == "array":
            arm["items"]["pattern"] = NAME
    parts["DomainModel"] |= {"oneOf": [{"required": [key]} for key in _DOMAINS], "dependentRequired": _BESIDE}
    mechanisms, estimators = registered_mechanisms(), registered_estimators()
    methods = {name: mechanism.summary for name, mechanism in mechanisms.items()}
    methods[AUTO] = "GRR or OLH, whichever has the lower variance"
    version, service, estimate = (parts[f"{part}Model"] for part in ("Version", "Service", "Estimate"))
    for part in (version, service):
        options = [option for mechanism in mechanisms.values() for option in options_of(mechanism).values()]
        _with_options(part, "mechanism", methods, options)
        part["properties"]["epsilon"] = _EPSILON
        part["properties"]["lifetime_epsilon"] |= {name: _EPSILON[name] for name in _EPSILON_ENDS}
        part["properties"]["memo_buckets"] |= {"minimum": 2, "maximum": MOST_MEMO_BUCKETS}
    chosen = service["properties"]
    for key in {"epsilon", *(option.name for option in options)}:
        chosen[key] = _or_by_field(chosen[key])
    chosen["version_field"]["not"] = {"enum": sorted(OWN_COLUMNS)}
    # Versions may say what the service does not.
    arms = [{"required": [key]} for key in ("epsilon", "rate", "other", "versions")]
    service |= {"anyOf": arms, "if": {"not": {"required": ["versions"]}}, "then": {"required": ["mechanism"]}}
    options = [option for estimator in estimators.values() for option in estimator.options.values()]
    _with_options(estimate, "estimator", {name: of.summary for name, of in estimators.items()}, options)
    estimate["properties"]["services"] |= {"minItems": 1, "uniqueItems": True}
    return schema


def _with_options(part: Schema, key: str, methods: Mapping[str, str], options: Iterable[Option]) -> None:
    """Let a part name one of some methods, and have their options, and no other key."""
    by_name: dict[str, list[Schema]] = {}
    for option in options:
        described, schema = by_name.setdefault(option.name, []), _option(option)
        if schema not in described:
            described.append(schema)
    part["properties"] |= {
        key: {"oneOf": [{"const": name, "description": text} for name, text in methods.items()]},
        **{name: each[0] if len(each) == 1 else {"anyOf": each} for name, each in by_name.items()},
    }
    part["additionalProperties"] = False


def _or_by_field(schema: Schema) -> Schema:
    """A schema of a key whose value may be said by a field of the report, if it is a number."""
    of_numbers = any(f'"type": "{kind}"' in json.dumps(schema) for kind in ("integer", "number"))
    return {"anyOf": [schema, {"$ref": "#/$defs/ByFieldModel"}]} if of_numbers else schema


def _option(option: Option) -> Schema:
    arms = [_kind(kind.type, kind.range, kind.choices) for kind in option.kinds]
    schema = arms[0] if len(arms) == 1 else ({"anyOf": arms} if arms else {})
    return schema | {"description": option.text or option.allowed, "default": option.default}


def _kind(kind: type, numbers: Range, choices: tuple[str, ...]) -> Schema:
    schema: Schema = {"type": _TYPES[kind]}
    if choices:
        schema["enum"] = list(choices)
    ends = {
        "exclusiveMinimum": numbers.above,
        "minimum": numbers.least,
        "maximum": numbers.most,
        "exclusiveMaximum": numbers.below,
    }
    return schema | {name: end for name, end in ends.items() if end is not None}
